use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::Result;
use testbed::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Long enough to see that nothing comes; nothing else tells it.
const QUIET: Duration = Duration::from_millis(200);

/// A client and a server with a proxy between them.
async fn pair() -> Result<(Proxy, TcpStream, TcpStream, TcpListener)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let proxy = Proxy::to(listener.local_addr()?).await?;
    let client = TcpStream::connect(proxy.addr()).await?;
    let (server, _) = listener.accept().await?;
    Ok((proxy, client, server, listener))
}

async fn read(stream: &mut TcpStream, count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[tokio::test]
async fn bytes_and_the_end_of_the_stream_pass_in_both_directions() -> Result<()> {
    let (_proxy, mut client, mut server, _listener) = pair().await?;
    let question = vec![7; 3_000_000];
    let expected = question.clone();
    let asking = tokio::spawn(async move {
        client.write_all(&question).await?;
        client.shutdown().await?;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    });
    let mut asked = Vec::new();
    server.read_to_end(&mut asked).await?;
    assert!(asked == expected);
    server.write_all(b"pong").await?;
    drop(server);
    assert_eq!(asking.await??, "pong");
    Ok(())
}

#[tokio::test]
async fn a_cut_resets_both_sides_and_lets_new_connections_in() -> Result<()> {
    let (proxy, mut client, mut server, listener) = pair().await?;
    proxy.cut();
    let reset = |result: std::io::Result<usize>| result.map_err(|error| error.kind());
    assert_eq!(reset(client.read(&mut [0]).await), Err(ErrorKind::ConnectionReset));
    assert_eq!(reset(server.read(&mut [0]).await), Err(ErrorKind::ConnectionReset));

    let mut client = TcpStream::connect(proxy.addr()).await?;
    let (mut server, _) = listener.accept().await?;
    client.write_all(b"again").await?;
    assert_eq!(read(&mut server, 5).await?, b"again");
    Ok(())
}

#[tokio::test]
async fn a_blocked_network_is_silent_and_loses_nothing() -> Result<()> {
    let (proxy, mut client, mut server, _listener) = pair().await?;
    proxy.block();
    client.write_all(b"late").await?;
    assert!(timeout(QUIET, server.read(&mut [0])).await.is_err());
    assert_eq!(proxy.connections(), 1);
    proxy.unblock();
    assert_eq!(read(&mut server, 4).await?, b"late");
    Ok(())
}

#[tokio::test]
async fn refused_connections_do_not_hurt_the_open_ones() -> Result<()> {
    let (proxy, mut client, mut server, _listener) = pair().await?;
    proxy.refuse();
    let refused = TcpStream::connect(proxy.addr()).await.map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
    client.write_all(b"still").await?;
    assert_eq!(read(&mut server, 5).await?, b"still");
    proxy.accept();
    TcpStream::connect(proxy.addr()).await?;
    Ok(())
}

#[tokio::test]
async fn the_stream_to_the_server_is_cut_after_exactly_that_many_bytes() -> Result<()> {
    let (proxy, mut client, mut server, listener) = pair().await?;
    proxy.cut_after(5);
    client.write_all(b"123").await?;
    client.write_all(b"456789").await?;
    let mut got = Vec::new();
    server.read_to_end(&mut got).await?;
    assert_eq!(got, b"12345");
    assert!(matches!(client.read(&mut [0]).await, Ok(0) | Err(_)));

    let mut client = TcpStream::connect(proxy.addr()).await?;
    let (mut server, _) = listener.accept().await?;
    client.write_all(b"once only").await?;
    assert_eq!(read(&mut server, 9).await?, b"once only");
    Ok(())
}

#[tokio::test]
async fn a_cut_that_has_not_happened_can_be_taken_back() -> Result<()> {
    let (proxy, mut client, mut server, _listener) = pair().await?;
    proxy.cut_after(5);
    client.write_all(b"123").await?;
    assert_eq!(read(&mut server, 3).await?, b"123");
    assert!(proxy.is_about_to_cut() && proxy.spare() && !proxy.is_about_to_cut());
    client.write_all(b"456789").await?;
    assert_eq!(read(&mut server, 6).await?, b"456789");
    assert!(!proxy.spare(), "there was none any more");
    Ok(())
}

#[tokio::test]
async fn latency_delays_and_does_not_add_up() -> Result<()> {
    let (proxy, mut client, mut server, _listener) = pair().await?;
    let delay = Duration::from_millis(100);
    proxy.latency(delay);
    let start = Instant::now();
    for _ in 0..100 {
        client.write_all(&[0; 1000]).await?;
    }
    read(&mut server, 100_000).await?;
    assert!(start.elapsed() >= delay);
    assert!(start.elapsed() < delay * 50, "{:?}", start.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_thin_line_takes_its_time_until_it_is_thin_no_more() -> Result<()> {
    let (proxy, mut client, mut server, _listener) = pair().await?;
    proxy.throttle(10_000);
    let start = Instant::now();
    client.write_all(&[0; 3_000]).await?;
    read(&mut server, 3_000).await?;
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
    proxy.throttle(1);
    client.write_all(&[0; 3_000]).await?;
    proxy.unthrottle();
    let start = Instant::now();
    read(&mut server, 3_000).await?;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    Ok(())
}

#[test]
fn a_url_is_rerouted_with_its_user_and_its_path() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let proxy = runtime.block_on(Proxy::to("127.0.0.1:9"))?;
    let url = proxy.reroute("amqp://guest:guest@localhost:5672/%2f")?;
    assert_eq!(url, format!("amqp://guest:guest@127.0.0.1:{}/%2f", proxy.port()));
    Ok(())
}
