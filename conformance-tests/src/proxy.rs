//! A TCP proxy in this process that fails on command: the network between a client and its store.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the proxy does with what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Traffic {
    /// Passes everything.
    Pass,
    /// Passes nothing and closes nothing: packets vanish.
    BlackHole,
    /// Passes requests, keeps the replies back: what is asked is done, and nobody hears of it.
    HoldReplies,
}

/// A proxy in front of one server, or of several that fail together. Connections end with it.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<SocketAddr>,
    traffic: watch::Sender<Traffic>,
    /// For each server.
    shared: Vec<Arc<Shared>>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shared {
    requests: Counter,
    replies: Counter,
    connections: Mutex<JoinSet<()>>,
}

/// What came from one side: how much, and in how many pieces.
#[derive(Debug, Default)]
struct Counter {
    bytes: AtomicU64,
    pieces: AtomicU64,
}

impl Proxy {
    /// Listens on a free loopback port for the server at `target`.
    ///
    /// # Errors
    ///
    /// If it cannot listen.
    pub async fn to(target: SocketAddr) -> io::Result<Self> {
        Self::to_all([target]).await
    }

    /// Listens on a free loopback port for each of these servers.
    ///
    /// # Errors
    ///
    /// If it cannot listen, or there is none.
    pub async fn to_all(targets: impl IntoIterator<Item = SocketAddr>) -> io::Result<Self> {
        let (traffic, watch) = watch::channel(Traffic::Pass);
        let (mut addresses, mut shared, mut tasks) = (Vec::new(), Vec::new(), JoinSet::new());
        for target in targets {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            addresses.push(listener.local_addr()?);
            let of_this = Arc::<Shared>::default();
            tasks.spawn(accept(listener, target, watch.clone(), Arc::clone(&of_this)));
            shared.push(of_this);
        }
        match addresses.is_empty() {
            true => Err(io::Error::other("a proxy in front of nothing")),
            false => Ok(Self { addresses, traffic, shared, _tasks: tasks }),
        }
    }

    /// Where clients connect, to the first server if there are several.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where clients connect, for each server.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Changes what happens to everything that passes from now on, and to what is held back.
    pub fn set(&self, traffic: Traffic) {
        self.traffic.send_replace(traffic);
    }

    /// Cuts every connection there is; new ones are accepted.
    pub fn cut(&self) {
        self.shared.iter().for_each(|shared| shared.connections().abort_all());
    }

    /// Bytes that clients have sent so far.
    pub fn request_bytes(&self) -> u64 {
        self.shared.iter().map(|shared| shared.requests.bytes.load(Ordering::SeqCst)).sum()
    }

    /// In how many pieces they came: the number of requests, if nobody sends several at once. Of the server that got
    /// most: who asks several at once asks once.
    pub fn requests(&self) -> u64 {
        let pieces = self.shared.iter().map(|shared| shared.requests.pieces.load(Ordering::SeqCst));
        pieces.max().unwrap_or_default()
    }

    /// Bytes that the servers have answered so far, whether or not they were passed on.
    pub fn reply_bytes(&self) -> u64 {
        self.shared.iter().map(|shared| shared.replies.bytes.load(Ordering::SeqCst)).sum()
    }
}

impl Shared {
    fn connections(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    traffic: watch::Receiver<Traffic>,
    shared: Arc<Shared>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let connection = serve(client, target, traffic.clone(), Arc::clone(&shared));
        let mut connections = shared.connections();
        while connections.try_join_next().is_some() {}
        connections.spawn(connection);
    }
}

async fn serve(
    client: TcpStream,
    target: SocketAddr,
    traffic: watch::Receiver<Traffic>,
    shared: Arc<Shared>,
) {
    let mut before = traffic.clone();
    // A connection attempt vanishes too: the kernel has accepted it, and nothing else will happen.
    if before.wait_for(|traffic| *traffic != Traffic::BlackHole).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there =
        pump(from_client, to_server, traffic.clone(), &shared.requests, |now| now != Traffic::BlackHole);
    let back = pump(from_server, to_client, traffic, &shared.replies, |now| now == Traffic::Pass);
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

/// Passes on what comes, when `passes` says so; what came meanwhile waits.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut traffic: watch::Receiver<Traffic>,
    counter: &Counter,
    passes: fn(Traffic) -> bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        counter.bytes.fetch_add(length as u64, Ordering::SeqCst);
        counter.pieces.fetch_add(1, Ordering::SeqCst);
        if traffic.wait_for(|now| passes(*now)).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
