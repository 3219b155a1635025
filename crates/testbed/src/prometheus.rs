//! A private Prometheus, to show that it reads our figures and that our rules fire; and promtool, which checks them.

use std::collections::BTreeMap;
use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use url::Url;

use crate::leash::{Folder, Leash};
use crate::{Missing, blocking, port};

const START: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(30);

/// A Prometheus of this test's own, with the configuration that the test gives it.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// let config = "scrape_configs: [{ job_name: outboxd, static_configs: [{ targets: ['127.0.0.1:8480'] }] }]";
/// let Some(prometheus) = testbed::available(testbed::Prometheus::start(config).await) else { return Ok(()) };
/// println!("{:?}", prometheus.query("up").await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Prometheus {
    port: u16,
    // In this order, since the folder's removal waits for the server.
    _leash: Leash,
    _folder: Folder,
}

/// A series at this moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its labels; its name is `__name__`.
    pub labels: BTreeMap<String, String>,
    /// May be not a number.
    pub value: f64,
}

/// An alert whose condition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// `pending` until it has held for long enough, then `firing`.
    pub state: String,
    /// Its labels; its name is `alertname`.
    pub labels: BTreeMap<String, String>,
    /// Its texts, filled in.
    pub annotations: BTreeMap<String, String>,
}

/// A rule as Prometheus understood it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Of the series that it records, or of the alert.
    pub name: String,
    /// What it computes.
    pub query: String,
    /// Its texts, as they are written; a recording rule has none.
    pub annotations: BTreeMap<String, String>,
}

impl Prometheus {
    /// Starts one with this `prometheus.yml`; rule files are named in it by their absolute paths.
    pub async fn start(config: &str) -> Result<Self> {
        let config = config.to_owned();
        blocking(move || Self::start_blocking(&config)).await
    }

    fn start_blocking(config: &str) -> Result<Self> {
        let program = program("prometheus")?;
        let folder = Folder::create(None)?;
        let port = port::free()?;
        let config = folder.write("prometheus.yml", config)?;
        let mut command = Command::new(program);
        command.arg("--config.file").arg(config).arg("--storage.tsdb.path").arg(folder.path().join("data"));
        command.arg("--web.listen-address").arg(port::address(port).to_string());
        let leash = folder.leash("prometheus", "KILL", &command)?;
        port::until("Prometheus to start", START, || {
            leash.check()?;
            Ok(port::answers(port) && get(port, "/-/ready").is_ok_and(|(status, _)| status == 200))
        })?;
        Ok(Self { port, _leash: leash, _folder: folder })
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The series that an expression has at this moment. One that is wrong is an error that says why.
    pub async fn query(&self, expr: &str) -> Result<Vec<Sample>> {
        let data = self.ask("query", &[("query", expr)]).await?;
        match (data["resultType"].as_str(), &data["result"]) {
            (Some("vector"), Value::Array(series)) => series.iter().map(sample).collect(),
            (Some("scalar"), value) => Ok(vec![Sample { labels: BTreeMap::new(), value: number(value)? }]),
            _ => bail!("{expr} is neither a vector nor a number"),
        }
    }

    /// The alerts whose condition holds.
    pub async fn alerts(&self) -> Result<Vec<Alert>> {
        let data = self.ask("alerts", &[]).await?;
        let alerts = data["alerts"].as_array().context("no alerts")?;
        let alert = |alert: &Value| Alert {
            state: text(&alert["state"]),
            labels: texts(&alert["labels"]),
            annotations: texts(&alert["annotations"]),
        };
        Ok(alerts.iter().map(alert).collect())
    }

    /// All rules that were loaded.
    pub async fn rules(&self) -> Result<Vec<Rule>> {
        let data = self.ask("rules", &[]).await?;
        let groups = data["groups"].as_array().context("no groups")?;
        let rules = groups.iter().filter_map(|group| group["rules"].as_array()).flatten();
        let rule = |rule: &Value| Rule {
            name: text(&rule["name"]),
            query: text(&rule["query"]),
            annotations: texts(&rule["annotations"]),
        };
        Ok(rules.map(rule).collect())
    }

    async fn ask(&self, what: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let base = format!("http://127.0.0.1/api/v1/{what}");
        let url = Url::parse_with_params(&base, parameters)?;
        let path = format!("{}?{}", url.path(), url.query().unwrap_or_default());
        let port = self.port;
        let (_, body) = blocking(move || get(port, &path)).await?;
        let mut answer: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
        if answer["status"] != "success" {
            bail!("Prometheus does not answer {what}: {}", text(&answer["error"]));
        }
        Ok(answer["data"].take())
    }
}

/// The program that checks rules and runs their tests, to be called with arguments.
pub fn promtool() -> Result<Command> {
    Ok(Command::new(program("promtool")?))
}

/// The status and the body. As a client of HTTP 1.0, so that the end of the connection is the end of the body.
fn get(port: u16, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&port::address(port), ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no head: {answer}"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.with_context(|| format!("no status: {head}"))?, body.to_owned()))
}

fn sample(series: &Value) -> Result<Sample> {
    Ok(Sample { labels: texts(&series["metric"]), value: number(&series["value"])? })
}

/// A time and a value, the latter as text.
fn number(value: &Value) -> Result<f64> {
    let text = text(&value[1]);
    text.parse().with_context(|| format!("not a number: {text:?}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.clone(), text(value))).collect()
}

fn program(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.exists());
    found.ok_or_else(|| {
        anyhow!(Missing { server: "Prometheus", install: "apt-get install prometheus", in_ci: false })
    })
}
