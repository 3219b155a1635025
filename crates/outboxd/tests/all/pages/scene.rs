//! A run with its server on, and a browser before it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testbed::{Browser, Page};

use crate::endpoint::Endpoint;
use crate::program::{PATIENCE, Program, Running};
use crate::web::server;

/// Where pictures of the pages go, if somebody wants them.
const PICTURES: &str = "OUTBOX_SCREENSHOTS";

/// Whoever comes from this machine may repair.
pub const HTTP: &str = "[http]\nlisten = \"127.0.0.1:0\"\nanonymous = \"operator\"\n";

/// What no page may show.
pub const SECRET: &str = "a-token-that-nobody-may-see";

/// The hash of a password, as the program makes it.
pub fn hash(command: &mut Command, password: &str) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// An outbox whose messages a handler takes, or refuses as it is told, and a file besides.
pub struct Store {
    pub scene: Scene,
    pub endpoint: Endpoint,
}

impl Store {
    /// With these keys of the pipe to the handler.
    pub async fn open(pipe: &str) -> Option<Self> {
        Self::with("anonymous = \"operator\"", pipe).await
    }

    /// With these keys of the server besides.
    pub async fn with(http: &str, pipe: &str) -> Option<Self> {
        let endpoint = Endpoint::start().await;
        let config = format!(
            r#"
[connections]
shop = "sqlite:shop.db"
[sources.orders]
on = "shop"
[sinks.mailer]
http = "{}"
private = true
[sinks.lines]
file = "lines.jsonl"
[pipes.notify]
from = "orders"
to = "mailer"
poll = "20ms"
{pipe}
[pipes.archive]
from = "orders"
to = "lines"
poll = "20ms"
[http]
listen = "127.0.0.1:0"
token = "{SECRET}"
{http}
"#,
            endpoint.url
        );
        Some(Self { scene: Scene::open(&config).await?, endpoint })
    }

    pub fn end(self) {
        self.scene.end();
    }
}

/// A run with a browser before it.
pub struct Scene {
    pub program: Program,
    pub page: Page,
    pub url: String,
    running: Running,
    browser: Browser,
}

impl Scene {
    /// Runs this configuration, its tables made; without a browser there is no scene.
    pub async fn open(config: &str) -> Option<Self> {
        Self::of(Program::migrated(config)).await
    }

    pub async fn of(program: Program) -> Option<Self> {
        let browser = testbed::available(Browser::start().await)?;
        let mut running = program.start(&["run"]);
        let url = format!("http://{}", server(&mut running));
        let page = browser.page().await.unwrap();
        Some(Self { program, page, url, running, browser })
    }

    /// Another page, with cookies of its own.
    pub async fn other_page(&self) -> Page {
        self.browser.page().await.unwrap()
    }

    pub async fn goto(&self, path: &str) {
        self.page.goto(&format!("{}{path}", self.url)).await.unwrap();
    }

    pub async fn sees(&self, words: &str) {
        self.page.until_text(words).await.unwrap();
    }

    pub async fn press(&self, words: &str) {
        self.page.click_text(words).await.unwrap();
    }

    /// Loads a page again and again until somebody can read this on it.
    pub async fn until(&self, path: &str, words: &str) {
        let begun = Instant::now();
        loop {
            self.goto(path).await;
            let text = self.page.text().await.unwrap();
            if text.contains(words) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "never seen: {words}\n{text}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Takes a picture in light and in dark, if somebody wants them.
    pub async fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os(PICTURES).map(PathBuf::from) else { return };
        let address = self.page.address().await.unwrap();
        for (word, dark) in [("light", false), ("dark", true)] {
            self.page.dark(dark).await.unwrap();
            self.page.goto(&address).await.unwrap();
            self.page.until("document.readyState === 'complete'").await.unwrap();
            // The charts are drawn when their figures have come.
            let drawn =
                "!document.querySelector('[data-chart]') || !!document.querySelector('[data-chart] canvas')";
            self.page.until(drawn).await.unwrap();
            self.page.screenshot(&folder.join(format!("{name}-{word}.png"))).await.unwrap();
        }
        self.page.dark(false).await.unwrap();
    }

    /// Takes a picture of how it is now, if somebody wants it.
    pub async fn phone_picture(&self, name: &str) {
        let Some(folder) = std::env::var_os(PICTURES).map(PathBuf::from) else { return };
        // Only a look for whoever works on the pages: the documents have none of a phone.
        if folder.join("phone").is_dir() {
            self.page.screenshot(&folder.join("phone").join(format!("{name}.png"))).await.unwrap();
        }
    }

    /// Nothing was amiss in the browser, nobody else was asked, and the run ends as it should.
    pub fn end(self) {
        let complaints = self.page.complaints();
        assert!(complaints.is_empty(), "{complaints:#?}");
        let (_, address) = self.url.split_once("//").unwrap();
        let hosts: Vec<_> = self.page.hosts().into_iter().collect();
        assert_eq!(hosts, [address], "no other host was asked");
        self.running.signal("TERM");
        let (code, said) = self.running.end();
        assert_eq!(code, 0, "{said}");
        assert!(!said.contains("still under way"), "an open stream ends with the server: {said}");
    }
}
