//! A browser sees what a server sends, and tells of what is amiss.

use testbed::Browser;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers every request with this page.
async fn serve(page: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n",
                page.len()
            );
            let policy = "Content-Security-Policy: default-src 'none'; script-src 'self' 'unsafe-inline'\r\n";
            let _ = stream.write_all(format!("{head}{policy}\r\n{page}").as_bytes()).await;
        }
    });
    format!("http://{address}/")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_read_filled_in_and_pressed() -> anyhow::Result<()> {
    let Some(browser) = testbed::available(Browser::start().await) else { return Ok(()) };
    let page = browser.page().await?;
    let url = serve(
        "<body><input id=a><button onclick=\"document.title = document.querySelector('#a').value\">Take it</button>\
         <p id=d></p><script>d.textContent = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'\
         </script>",
    )
    .await;
    page.dark(true).await?;
    page.goto(&url).await?;
    page.until_text("dark").await?;
    page.fill("#a", "words").await?;
    page.click_text("Take it").await?;
    page.until("document.title === 'words'").await?;
    assert_eq!(
        page.complaints().into_iter().filter(|one| !one.contains("favicon")).collect::<Vec<_>>(),
        [""; 0]
    );
    page.scripts(false).await?;
    page.goto(&url).await?;
    assert!(!page.text().await?.contains("dark"), "its script has not run");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_amiss_on_a_page_is_told() -> anyhow::Result<()> {
    let Some(browser) = testbed::available(Browser::start().await) else { return Ok(()) };
    let page = browser.page().await?;
    page.goto(&serve("<body><img src='http://127.0.0.2:9/x.png'><script>console.error('odd'); throw new Error('broken')</script>").await).await?;
    let told = page.complaints().join("\n");
    for words in ["odd", "broken", "Content Security Policy"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(page.hosts().iter().all(|host| host.starts_with("127.0.0.")), "{:?}", page.hosts());
    Ok(())
}
