//! A page: what a person sees in it and does with it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use url::Url;

use super::wire::Wire;

const PATIENCE: Duration = Duration::from_secs(30);

/// Finds what can be pressed by the words on it; the whole of them counts before a part.
const BY_WORDS: &str = r"((words) => {
    const all = Array.from(document.querySelectorAll('button, a, summary, [role=button]'))
        .filter((one) => one.getClientRects().length > 0);
    const text = (one) => one.innerText.trim();
    return all.find((one) => text(one) === words) || all.find((one) => text(one).includes(words));
})";

/// A page of a browser.
#[derive(Debug)]
pub struct Page {
    wire: Wire,
    session: String,
}

impl Page {
    pub(super) async fn open(wire: Wire, session: String) -> Result<Self> {
        let page = Self { wire, session };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            page.call(&format!("{domain}.enable"), json!({})).await?;
        }
        page.size(1280, 800).await?;
        Ok(page)
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value> {
        self.wire.call(Some(&self.session), method, params).await
    }

    /// Goes to an address, and returns when all of it is loaded.
    pub async fn goto(&self, url: &str) -> Result<()> {
        let loaded =
            || self.wire.events(&self.session, |name, _| (name == "Page.loadEventFired").then_some(())).len();
        let before = loaded();
        let went = self.call("Page.navigate", json!({ "url": url })).await?;
        if let Some(error) = went["errorText"].as_str() {
            bail!("cannot go to {url}: {error}");
        }
        let begun = Instant::now();
        while loaded() == before {
            if begun.elapsed() > PATIENCE {
                bail!("{url} was not loaded in {PATIENCE:?}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// The value of an expression in the page; a promise is awaited.
    pub async fn eval(&self, expression: &str) -> Result<Value> {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", params).await?;
        if !answer["exceptionDetails"].is_null() {
            bail!("{expression}: {}", answer["exceptionDetails"]["exception"]["description"]);
        }
        Ok(answer["result"]["value"].take())
    }

    /// What a person reads.
    pub async fn text(&self) -> Result<String> {
        let text = self.eval("document.body ? document.body.innerText : ''").await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an expression is true.
    pub async fn until(&self, expression: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            // While it goes from one page to the next there is nothing to ask.
            if self.eval(expression).await.is_ok_and(|value| value == true) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let address = self.address().await.unwrap_or_default();
                let text = self.text().await.unwrap_or_default();
                bail!("never was so: {expression}\nat {address}:\n{text}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until somebody can read this.
    pub async fn until_text(&self, words: &str) -> Result<()> {
        self.until(&format!("!!document.body && document.body.innerText.includes({})", json!(words))).await
    }

    /// Where the page is.
    pub async fn address(&self) -> Result<String> {
        Ok(self.eval("location.href").await?.as_str().unwrap_or_default().to_owned())
    }

    /// Presses what the selector finds first.
    pub async fn click(&self, selector: &str) -> Result<()> {
        self.press_at(&format!("document.querySelector({})", json!(selector))).await
    }

    /// Presses the button or link with these words on it.
    pub async fn click_text(&self, words: &str) -> Result<()> {
        self.press_at(&format!("{BY_WORDS}({})", json!(words))).await
    }

    async fn press_at(&self, found: &str) -> Result<()> {
        self.until(&format!("!!({found})")).await?;
        let place = format!(
            "(() => {{ const one = {found}; one.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let place = self.eval(&place).await?;
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            let event = json!({
                "type": kind, "x": place[0], "y": place[1], "buttons": buttons, "clickCount": 1,
                "button": if kind == "mouseMoved" { "none" } else { "left" },
            });
            self.call("Input.dispatchMouseEvent", event).await?;
        }
        Ok(())
    }

    /// Replaces what stands in a field.
    pub async fn fill(&self, selector: &str, text: &str) -> Result<()> {
        let select = format!(
            "(() => {{ const one = document.querySelector({}); one.focus(); one.select(); return true; }})()",
            json!(selector)
        );
        self.until(&select).await?;
        self.call("Input.insertText", json!({ "text": text })).await?;
        Ok(())
    }

    /// Presses a key: a character, or `Enter` or `Escape`.
    pub async fn key(&self, key: &str) -> Result<()> {
        let (code, text) = match key {
            "Enter" => (13, Some("\r")),
            "Escape" => (27, None),
            other => (0, Some(other)),
        };
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if let Some(text) = text {
            down["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", down).await?;
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key })).await?;
        Ok(())
    }

    /// What is seen, as a PNG file.
    pub async fn screenshot(&self, path: &Path) -> Result<()> {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" })).await?;
        let bytes = STANDARD.decode(shot["data"].as_str().context("no picture")?)?;
        std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    /// As on a screen of this size; below 500 it is a phone.
    pub async fn size(&self, width: u32, height: u32) -> Result<()> {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await?;
        Ok(())
    }

    /// For somebody who likes it dark.
    pub async fn dark(&self, dark: bool) -> Result<()> {
        let value = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.call("Emulation.setEmulatedMedia", features).await?;
        Ok(())
    }

    /// Whether the scripts of pages run, from the next one on.
    pub async fn scripts(&self, run: bool) -> Result<()> {
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": !run })).await?;
        Ok(())
    }

    /// With these headers in every request.
    pub async fn headers(&self, headers: &[(&str, &str)]) -> Result<()> {
        let headers: serde_json::Map<_, _> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        self.call("Network.setExtraHTTPHeaders", json!({ "headers": headers })).await?;
        Ok(())
    }

    /// What the browser complained of since the page was opened: exceptions, errors in the console, what the content
    /// policy kept out, and what could not be loaded.
    pub fn complaints(&self) -> Vec<String> {
        self.wire.events(&self.session, |name, params| match name {
            "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params["args"].to_string()),
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                Some(format!("{} {}", params["entry"]["text"], params["entry"]["url"]))
            }
            _ => None,
        })
    }

    /// Every host and port that was asked for something.
    pub fn hosts(&self) -> BTreeSet<String> {
        let asked = self.wire.events(&self.session, |name, params| {
            let url = params["request"]["url"].as_str().filter(|_| name == "Network.requestWillBeSent")?;
            let url = Url::parse(url).ok()?;
            Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
        });
        asked.into_iter().collect()
    }
}
