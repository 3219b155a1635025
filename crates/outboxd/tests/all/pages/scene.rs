//! A run with its server on, and a browser before it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use testbed::{Browser, Page};

use crate::program::{PATIENCE, Program, Running};
use crate::web::server;

/// Where pictures of the pages go, if somebody wants them.
const PICTURES: &str = "OUTBOX_SCREENSHOTS";

/// Whoever comes from this machine may repair.
pub const HTTP: &str = "[http]\nlisten = \"127.0.0.1:0\"\nanonymous = \"operator\"\n";

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
