//! A network that fails on command: a TCP proxy between the code under test and a server.
//!
//! It runs on a thread and a clock of its own, so it works for a test of any runtime, paused or not.
//! When a method returns, nothing is begun under the old rules any more (a piece that waits for room in a socket still
//! goes): changes are made on that one thread and answered from there, or under a lock.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use url::Url;

use crate::port;

/// How long a server may take to close a connection that we cut after the last allowed byte.
const CLOSING: Duration = Duration::from_secs(5);

/// A TCP proxy with faults. Dropping it cuts all of its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    orders: mpsc::UnboundedSender<(Order, Answer)>,
    allowance: Allowance,
}

#[derive(Debug)]
enum Order {
    Count,
    Cut,
    Refuse,
    Accept,
    Block(bool),
    Latency(Duration),
    Throttle(Option<u64>),
    Lead(SocketAddr),
}

/// Gets the number of connections that are open after an order.
type Answer = std::sync::mpsc::Sender<io::Result<usize>>;

#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    blocked: bool,
    latency: Duration,
    /// Bytes per second of one connection, in each direction.
    rate: Option<u64>,
}

/// How many bytes may still go to the server before a cut.
type Allowance = Arc<Mutex<Option<u64>>>;

impl Proxy {
    /// A proxy to `target`, such as `("127.0.0.1", 5432)` or `"127.0.0.1:5432"`.
    pub async fn to(target: impl ToSocketAddrs) -> Result<Self> {
        Self::at(port::address(port::free()?), target).await
    }

    /// The same at an address of choice, for servers that tell their clients where to go.
    pub async fn at(address: SocketAddr, target: impl ToSocketAddrs) -> Result<Self> {
        let target = target.to_socket_addrs()?.next().context("the target has no address")?;
        let (orders, inbox) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = std::net::TcpListener::bind(address)
            .with_context(|| format!("the proxy cannot listen at {address}"))?;
        let allowance = Allowance::default();
        let spent = allowance.clone();
        thread::Builder::new()
            .name("faults-proxy".to_owned())
            .spawn(move || runtime.block_on(serve(listener, target, inbox, spent)))?;
        Ok(Self { address, orders, allowance })
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address to connect to.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The same URL, but through this proxy.
    pub fn reroute(&self, url: &str) -> Result<String> {
        let mut url = Url::parse(url).context("that is no URL")?;
        url.set_ip_host(self.address.ip()).map_err(|()| anyhow!("no host can be set in the URL"))?;
        url.set_port(Some(self.port())).map_err(|()| anyhow!("no port can be set in the URL"))?;
        Ok(url.into())
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.order(Order::Count)
    }

    /// Resets every open connection, on both sides. New ones are welcome.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Resets the connection that sends the `bytes`-th next byte to the server, after that byte. The
    /// server gets these bytes and then the end of the stream. It happens once.
    pub fn cut_after(&self, bytes: u64) {
        *locked(&self.allowance) = Some(bytes);
    }

    /// Whether a cut that [`cut_after`](Self::cut_after) was told of is yet to come.
    pub fn is_about_to_cut(&self) -> bool {
        locked(&self.allowance).is_some()
    }

    /// Takes back what [`cut_after`](Self::cut_after) was told, if so many bytes have not come yet; tells whether that was so.
    pub fn spare(&self) -> bool {
        locked(&self.allowance).take().is_some()
    }

    /// Swallows the bytes of both directions: connections stay open, and silent.
    pub fn block(&self) {
        self.order(Order::Block(true));
    }

    /// Lets the bytes flow again, the waiting ones first.
    pub fn unblock(&self) {
        self.order(Order::Block(false));
    }

    /// Refuses new connections. The open ones go on.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    /// Accepts new connections again.
    pub fn accept(&self) {
        self.order(Order::Accept);
    }

    /// Delays all bytes by this much, in each direction.
    pub fn latency(&self, latency: Duration) {
        self.order(Order::Latency(latency));
    }

    /// Lets no more than so many bytes per second through each connection, in each direction.
    pub fn throttle(&self, bytes_per_second: u64) {
        self.order(Order::Throttle(Some(bytes_per_second.max(1))));
    }

    /// Lets the bytes flow as fast as they come.
    pub fn unthrottle(&self) {
        self.order(Order::Throttle(None));
    }

    /// Leads new connections elsewhere, as an address does that moves to another server.
    pub fn lead_to(&self, target: impl ToSocketAddrs) -> Result<()> {
        self.order(Order::Lead(target.to_socket_addrs()?.next().context("the target has no address")?));
        Ok(())
    }

    /// Blocks for the moment until the proxy's thread has obeyed.
    #[track_caller]
    fn order(&self, order: Order) -> usize {
        let (answer, answered) = std::sync::mpsc::channel();
        let _ = self.orders.send((order, answer));
        match answered.recv() {
            Ok(Ok(connections)) => connections,
            Ok(Err(error)) => panic!("the proxy cannot obey: {error}"),
            Err(_) => panic!("the proxy has ended"),
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    mut target: SocketAddr,
    mut orders: mpsc::UnboundedReceiver<(Order, Answer)>,
    allowance: Allowance,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let mut door = Some(Door::open(listener)?);
    let mut connections = JoinSet::new();
    let rules = watch::Sender::new(Rules::default());
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some((order, answer)) = order else { return Ok(()) };
                let mut obeyed = Ok(());
                match order {
                    Order::Count => {}
                    Order::Cut => {
                        obeyed = door.as_ref().map_or(Ok(()), Door::reset_waiting);
                        connections.shutdown().await;
                    }
                    Order::Refuse => door = None,
                    Order::Accept if door.is_some() => {}
                    Order::Accept => match std::net::TcpListener::bind(address).and_then(Door::open) {
                        Ok(opened) => door = Some(opened),
                        Err(error) => obeyed = Err(error),
                    },
                    Order::Block(blocked) => rules.send_modify(|rules| rules.blocked = blocked),
                    Order::Lead(elsewhere) => target = elsewhere,
                    Order::Latency(latency) => rules.send_modify(|rules| rules.latency = latency),
                    Order::Throttle(rate) => rules.send_modify(|rules| rules.rate = rate),
                }
                while connections.try_join_next().is_some() {}
                let _ = answer.send(obeyed.map(|()| connections.len()));
            }
            client = accepted(door.as_ref()) => {
                connections.spawn(connect(client, target, rules.subscribe(), allowance.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The listening socket, twice: to wait for the next client, and to see who waits right now.
struct Door {
    next: TcpListener,
    now: std::net::TcpListener,
}

impl Door {
    fn open(now: std::net::TcpListener) -> io::Result<Self> {
        now.set_nonblocking(true)?;
        Ok(Self { next: TcpListener::from_std(now.try_clone()?)?, now })
    }

    /// For a client, a connection is open before we have accepted it: a cut is for these too.
    fn reset_waiting(&self) -> io::Result<()> {
        loop {
            match self.now.accept() {
                Ok((client, _)) => {
                    client.set_nonblocking(true)?;
                    TcpStream::from_std(client)?.set_zero_linger()?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // That of a client that is gone already.
                Err(_) => {}
            }
        }
    }
}

async fn accepted(door: Option<&Door>) -> TcpStream {
    let Some(door) = door else { return std::future::pending().await };
    loop {
        match door.next.accept().await {
            // Here, since a cut may come before the task of this connection has run at all.
            Ok((client, _)) if client.set_zero_linger().is_ok() => return client,
            // A client that is gone already.
            _ => tokio::task::yield_now().await,
        }
    }
}

/// Why a connection ended.
enum End {
    /// A peer reset it, or cannot be reached.
    Broken,
    /// The allowance is spent.
    Spent,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

async fn connect(client: TcpStream, target: SocketAddr, rules: watch::Receiver<Rules>, allowance: Allowance) {
    let _ = forward(client, target, rules, allowance).await;
}

async fn forward(
    mut client: TcpStream,
    target: SocketAddr,
    rules: watch::Receiver<Rules>,
    allowance: Allowance,
) -> io::Result<()> {
    // With no time to linger a dropped socket is reset: that is the cut, for which this task is aborted,
    // maybe when the server has accepted and we have not heard of it. So it is set before.
    let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_zero_linger()?;
    let mut server = socket.connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let ended = tokio::try_join!(
        flow(from_client, to_server, rules.clone(), Some(&allowance)),
        flow(from_server, to_client, rules, None),
    );
    match ended {
        Ok(_) => {
            close_in_order(&client)?;
            close_in_order(&server)
        }
        Err(End::Broken) => Ok(()),
        Err(End::Spent) => {
            drop(client);
            // A reset would overtake the bytes that the server has yet to read.
            close_in_order(&server)?;
            server.shutdown().await?;
            let _ = timeout(CLOSING, copy(&mut server, &mut sink())).await;
            Ok(())
        }
    }
}

#[expect(
    deprecated,
    reason = "what may block is a time to linger; none is the default that nobody deprecates"
)]
fn close_in_order(stream: &TcpStream) -> io::Result<()> {
    stream.set_linger(None)
}

/// One direction. What is read waits in a line until it is due, so that latency costs no throughput.
async fn flow(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    rules: watch::Receiver<Rules>,
    allowance: Option<&Allowance>,
) -> Result<(), End> {
    let (line, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(256);
    let mut arriving = rules.clone();
    let intake = async move {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match from.read(&mut buffer).await {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    let time = Instant::now() + arriving.borrow().latency;
                    let _ = line.send((time, buffer[..count].to_vec())).await;
                }
                // The other side must not hear of it through a blocked network.
                Err(error) => {
                    let _ = arriving.wait_for(|rules| !rules.blocked).await;
                    return Err(End::from(error));
                }
            }
        }
    };
    let mut leaving = rules;
    let outflow = async move {
        while let Some((time, bytes)) = due.recv().await {
            sleep_until(time).await;
            let _ = leaving.wait_for(|rules| !rules.blocked).await;
            let mut left = bytes.as_slice();
            while !left.is_empty() {
                let piece;
                (piece, left) = left.split_at(piece_of(leaving.borrow().rate, left.len()));
                let (allowed, spent) = spend(allowance, piece);
                to.write_all(allowed).await?;
                if spent {
                    return Err(End::Spent);
                }
                pace(&mut leaving, piece.len()).await;
            }
        }
        let _ = leaving.wait_for(|rules| !rules.blocked).await;
        to.shutdown().await?;
        Ok(())
    };
    tokio::try_join!(intake, outflow).map(drop)
}

/// How much goes at once: on a thin line what it takes in a fiftieth of a second.
fn piece_of(rate: Option<u64>, waiting: usize) -> usize {
    let most = rate.and_then(|rate| usize::try_from(rate / 50).ok()).map_or(usize::MAX, |most| most.max(1));
    waiting.min(most)
}

/// Waits for as long as a thin line takes for so many bytes, or until it is no longer the same line.
async fn pace(rules: &mut watch::Receiver<Rules>, bytes: usize) {
    let Some(rate) = rules.borrow().rate else { return };
    let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
    let _ = timeout(takes, rules.wait_for(|rules| rules.rate != Some(rate))).await;
    let _ = rules.wait_for(|rules| !rules.blocked).await;
}

fn locked(allowance: &Allowance) -> MutexGuard<'_, Option<u64>> {
    allowance.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What may pass, and whether it is the last that may.
fn spend<'a>(allowance: Option<&Allowance>, bytes: &'a [u8]) -> (&'a [u8], bool) {
    let Some(allowance) = allowance else { return (bytes, false) };
    let mut left = locked(allowance);
    match *left {
        None => (bytes, false),
        Some(allowed) if (bytes.len() as u64) < allowed => {
            *left = Some(allowed - bytes.len() as u64);
            (bytes, false)
        }
        Some(allowed) => {
            *left = None;
            (&bytes[..usize::try_from(allowed).unwrap_or(bytes.len())], true)
        }
    }
}
