//! A headless Chromium with a profile of its own, to see pages as a person does.

mod page;
mod wire;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde_json::json;

pub use page::Page;

use crate::leash::{Folder, Leash};
use crate::{Missing, blocking, port};
use wire::Wire;

const START: Duration = Duration::from_secs(60);

/// The names under which systems have it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser of this test's own.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// let Some(browser) = testbed::available(testbed::Browser::start().await) else { return Ok(()) };
/// let page = browser.page().await?;
/// page.goto("http://127.0.0.1:8480/").await?;
/// page.until_text("Healthy").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Browser {
    wire: Wire,
    // In this order, since the folder's removal waits for the browser.
    _leash: Leash,
    _folder: Folder,
}

impl Browser {
    /// Starts one.
    pub async fn start() -> Result<Self> {
        let (leash, folder, url) = blocking(Self::start_blocking).await?;
        Ok(Self { wire: Wire::connect(&url).await?, _leash: leash, _folder: folder })
    }

    fn start_blocking() -> Result<(Leash, Folder, String)> {
        let program = program()?;
        let folder = Folder::create(None)?;
        let profile = folder.path().join("profile");
        let mut command = Command::new(program);
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        // It should ask nobody for anything by itself.
        command.args(["--no-first-run", "--disable-background-networking", "--disable-component-update"]);
        command.args(["--disable-sync", "--disable-default-apps", "--hide-scrollbars", "--mute-audio"]);
        command.arg("--remote-debugging-port=0");
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        let leash = folder.leash("chromium", "KILL", &command)?;
        // It writes its port and the path of its socket there.
        let told = profile.join("DevToolsActivePort");
        let mut url = None;
        port::until("Chromium to start", START, || {
            leash.check()?;
            let text = fs::read_to_string(&told).unwrap_or_default();
            let lines = text.split_once('\n').filter(|(_, path)| !path.is_empty());
            url = lines.map(|(port, path)| format!("ws://127.0.0.1:{port}{}", path.trim()));
            Ok(url.is_some())
        })?;
        Ok((leash, folder, url.context("it has told no address")?))
    }

    /// A new page with cookies of its own, 1280 by 800.
    pub async fn page(&self) -> Result<Page> {
        let context = self.wire.call(None, "Target.createBrowserContext", json!({})).await?;
        let context = &context["browserContextId"];
        let target = json!({ "url": "about:blank", "browserContextId": context });
        let target = self.wire.call(None, "Target.createTarget", target).await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.wire.call(None, "Target.attachToTarget", attach).await?;
        let session = session["sessionId"].as_str().context("no session")?;
        Page::open(self.wire.clone(), session.to_owned()).await
    }
}

fn program() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places =
        NAMES.iter().flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)));
    places.find(|program| program.exists()).ok_or_else(|| {
        let install = "apt-get install chromium fonts-dejavu-core";
        anyhow!(Missing { server: "Chromium", install, in_ci: false })
    })
}
