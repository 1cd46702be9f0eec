//! A TCP proxy in this process that fails on command: the network between a client and its store.

#[cfg(test)]
mod tests;
mod traffic;

pub use traffic::Traffic;

use crate::locked;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use traffic::{Gate, Side, TrafficState};

/// What servers call each other, by port, and what they are called through the proxy. As long as each other, so that a reply
/// keeps its length.
type Name = ([u8; 5], [u8; 5]);

/// A proxy in front of one server, or of several that fail together. Connections end with it.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<SocketAddr>,
    network: Arc<Network>,
    connections: Arc<Mutex<JoinSet<()>>>,
    _listening: JoinSet<()>,
}

/// What all connections share.
#[derive(Debug)]
struct Network {
    state: watch::Sender<TrafficState>,
    resets: AtomicU64,
    /// For each reply that is to pass though it is kept back.
    singles: Semaphore,
    /// Connections with a smaller number are stranded.
    stranded: watch::Sender<u64>,
    /// The number of the next connection.
    next: AtomicU64,
    /// The servers.
    upstreams: Vec<Upstream>,
    names: Vec<Name>,
}

#[derive(Debug)]
struct Upstream {
    target: Mutex<SocketAddr>,
    requests: Counter,
    replies: Counter,
}

/// What came from one side: how much, in how many pieces, and how many connections it has ended.
#[derive(Debug, Default)]
struct Counter {
    bytes: AtomicU64,
    pieces: AtomicU64,
    ends: AtomicU64,
}

impl Proxy {
    /// Listens on a free loopback port for the server at `target`.
    ///
    /// # Errors
    ///
    /// As of [`to_all`](Self::to_all).
    pub async fn to(target: SocketAddr) -> io::Result<Self> {
        Self::to_all(vec![target], false).await
    }

    /// Listens on a free loopback port for each of these servers.
    ///
    /// If they `name_each_other`, they are servers that send their clients to each other, in Redis's protocol: wherever a reply
    /// names the port of one, it names the proxy's instead. So a client that follows what it is told never leaves the proxy.
    ///
    /// # Errors
    ///
    /// If it cannot listen, there is none, or a port that is to be renamed has not five digits.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop: nothing listens then.
    pub async fn to_all(targets: Vec<SocketAddr>, name_each_other: bool) -> io::Result<Self> {
        let (mut addresses, mut listeners, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for target in &targets {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let address = listener.local_addr()?;
            if name_each_other {
                names.push((digits(target.port())?, digits(address.port())?));
            }
            addresses.push(address);
            listeners.push(listener);
        }
        if addresses.is_empty() {
            return Err(io::Error::other("a proxy in front of nothing"));
        }
        let network = Arc::new(Network {
            state: watch::Sender::new(TrafficState::new(Traffic::Pass)),
            resets: AtomicU64::new(0),
            singles: Semaphore::new(0),
            stranded: watch::Sender::new(0),
            next: AtomicU64::new(0),
            upstreams: targets.into_iter().map(Upstream::new).collect(),
            names,
        });
        let connections = Arc::<Mutex<JoinSet<()>>>::default();
        let listening = listeners.into_iter().enumerate().map(|(upstream, listener)| {
            accept(listener, Arc::clone(&network), upstream, Arc::clone(&connections))
        });
        Ok(Self { addresses, _listening: listening.collect(), network, connections })
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
        self.network.state.send_replace(TrafficState::new(traffic));
    }

    /// Passes on one piece of the replies that are kept back, and keeps the others.
    pub fn pass_one_reply(&self) {
        self.network.singles.add_permits(1);
    }

    /// Cuts every connection there is, and says how many there were; new ones are accepted.
    pub fn cut(&self) -> usize {
        let mut connections = locked(&self.connections);
        while connections.try_join_next().is_some() {}
        connections.abort_all();
        connections.len()
    }

    /// Keeps back what clients send from now on over the connections that there are; new ones pass. It is not lost: it
    /// reaches the server with [`deliver`](Self::deliver), long after its client has given up and gone.
    pub fn strand(&self) {
        self.network.stranded.send_replace(self.network.next.load(Ordering::SeqCst));
    }

    /// Passes on what [`strand`](Self::strand) has kept back.
    pub fn deliver(&self) {
        self.network.stranded.send_replace(0);
    }

    /// How many connections [`Traffic::ResetAfter`] has ended.
    pub fn resets(&self) -> u64 {
        self.network.resets.load(Ordering::SeqCst)
    }

    /// Leads whoever connects from now on to another server, the first if there are several, as an address does that moves
    /// from one host to another. Connections that there are stay where they lead. Returns where it led before.
    pub fn lead_to(&self, target: SocketAddr) -> SocketAddr {
        std::mem::replace(&mut locked(&self.network.upstreams[0].target), target)
    }

    /// Bytes that clients have sent so far.
    pub fn request_bytes(&self) -> u64 {
        self.counts(|upstream| &upstream.requests.bytes).sum()
    }

    /// In how many pieces they came: the number of requests, if no client sends several at once. The largest number
    /// of a server, because a question to several servers at once counts once.
    pub fn requests(&self) -> u64 {
        self.counts(|upstream| &upstream.requests.pieces).max().unwrap_or_default()
    }

    /// Bytes that the servers have answered so far, whether or not they were passed on.
    pub fn reply_bytes(&self) -> u64 {
        self.counts(|upstream| &upstream.replies.bytes).sum()
    }

    /// How many connections the servers have ended so far, and no client, and no order of ours.
    pub fn ended_by_servers(&self) -> u64 {
        self.counts(|upstream| &upstream.replies.ends).sum()
    }

    fn counts(&self, of: fn(&Upstream) -> &AtomicU64) -> impl Iterator<Item = u64> {
        self.network.upstreams.iter().map(move |upstream| of(upstream).load(Ordering::SeqCst))
    }
}

impl Upstream {
    fn new(target: SocketAddr) -> Self {
        Self { target: Mutex::new(target), requests: Counter::default(), replies: Counter::default() }
    }
}

async fn accept(
    listener: TcpListener,
    network: Arc<Network>,
    upstream: usize,
    connections: Arc<Mutex<JoinSet<()>>>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let number = network.next.fetch_add(1, Ordering::SeqCst);
        let mut connections = locked(&connections);
        while connections.try_join_next().is_some() {}
        connections.spawn(serve(client, Gate { network: Arc::clone(&network), number }, upstream));
    }
}

async fn serve(mut client: TcpStream, gate: Gate, upstream: usize) {
    // A connection attempt vanishes too: the kernel has accepted it, and nothing else will happen.
    gate.wait_for(|now| now != Traffic::BlackHole).await;
    let upstream = &gate.network.upstreams[upstream];
    let target = *locked(&upstream.target);
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
    let ended = tokio::select! {
        ended = pump(from_client, to_server, &gate, Side::Client, &upstream.requests) => ended,
        ended = pump(from_server, to_client, &gate, Side::Server, &upstream.replies) => ended,
    };
    if ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset) {
        // A reset by one end, or by order, is passed on to the other end.
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Passes on what comes, when it may pass; what came meanwhile waits.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    gate: &Gate,
    side: Side,
    counter: &Counter,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await;
        if matches!(read, Ok(0) | Err(_)) {
            counter.ends.fetch_add(1, Ordering::SeqCst);
            return read.map(drop);
        }
        let piece = &mut buffer[..read?];
        counter.bytes.fetch_add(piece.len() as u64, Ordering::SeqCst);
        counter.pieces.fetch_add(1, Ordering::SeqCst);
        if side == Side::Server {
            rename(piece, &gate.network.names);
        }
        if !gate.is_in_time(side) {
            gate.wait_until_passing(side).await;
        }
        gate.pass_on(piece, &mut to).await?;
    }
}

/// Only where the whole number is meant: a token may have the same digits in it.
fn rename(reply: &mut [u8], names: &[Name]) {
    for at in 0..reply.len().saturating_sub(6) {
        let (before, after) = (reply[at], reply[at + 6]);
        if !matches!(before, b':' | b'\n') || !matches!(after, b'\r' | b'@' | b' ' | b',') {
            continue;
        }
        let number = &mut reply[at + 1..at + 6];
        if let Some((_, new)) = names.iter().find(|(old, _)| old == number) {
            number.copy_from_slice(new);
        }
    }
}

fn digits(port: u16) -> io::Result<[u8; 5]> {
    port.to_string().as_bytes().try_into().map_err(|_| io::Error::other(format!("port {port} is too short")))
}
