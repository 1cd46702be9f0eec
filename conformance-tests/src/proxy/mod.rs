//! A TCP proxy in this process that fails on command: the network between a client and its store.

#[cfg(test)]
mod tests;
mod traffic;

pub use traffic::Traffic;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use traffic::{Gate, Side, TrafficState};

/// What servers call each other, by port, and what they are called through the proxy. As long as each other, so that a reply
/// keeps its length.
type Names = Vec<Name>;
type Name = ([u8; 5], [u8; 5]);

/// A proxy in front of one server, or of several that fail together. Connections end with it.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<SocketAddr>,
    way: watch::Sender<TrafficState>,
    resets: Arc<AtomicU64>,
    /// For each reply that is to pass though it is kept back.
    singles: Arc<Semaphore>,
    /// Connections with a smaller number are stranded.
    stranded: watch::Sender<u64>,
    /// The number of the next connection.
    next: Arc<AtomicU64>,
    /// For each server.
    shared: Vec<Arc<Upstream>>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Upstream {
    target: Mutex<SocketAddr>,
    requests: Counter,
    replies: Counter,
    connections: Mutex<JoinSet<()>>,
    names: Arc<Names>,
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
        Self::to_all([target]).await
    }

    /// Listens on a free loopback port for each of these servers.
    ///
    /// # Errors
    ///
    /// If it cannot listen, or there is none.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop: nothing listens then.
    pub async fn to_all(targets: impl IntoIterator<Item = SocketAddr>) -> io::Result<Self> {
        Self::listen(targets.into_iter().collect(), false).await
    }

    /// The same for servers that send their clients to each other, in Redis's protocol: wherever a reply names the port of
    /// one, it names the proxy's instead. So a client that follows what it is told never leaves the proxy.
    ///
    /// # Errors
    ///
    /// If it cannot listen, there is none, or a port has not five digits.
    pub async fn to_all_that_name_each_other(
        targets: impl IntoIterator<Item = SocketAddr>,
    ) -> io::Result<Self> {
        Self::listen(targets.into_iter().collect(), true).await
    }

    async fn listen(targets: Vec<SocketAddr>, naming: bool) -> io::Result<Self> {
        let (way, stranded) = (watch::Sender::new(TrafficState::new(Traffic::Pass)), watch::Sender::new(0));
        let (next, resets) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let singles = Arc::new(Semaphore::new(0));
        let (mut listeners, mut names) = (Vec::new(), Names::new());
        for target in &targets {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            if naming {
                names.push((digits(target.port())?, digits(listener.local_addr()?.port())?));
            }
            listeners.push(listener);
        }
        let names = Arc::new(names);
        let (mut addresses, mut shared, mut tasks) = (Vec::new(), Vec::new(), JoinSet::new());
        for (target, listener) in targets.into_iter().zip(listeners) {
            addresses.push(listener.local_addr()?);
            let of_this = Arc::new(Upstream::new(target, Arc::clone(&names)));
            let gate = Gate {
                way: way.subscribe(),
                resets: Arc::clone(&resets),
                singles: Arc::clone(&singles),
                stranded: stranded.subscribe(),
                number: 0,
            };
            tasks.spawn(accept(listener, gate, (Arc::clone(&next), Arc::clone(&of_this))));
            shared.push(of_this);
        }
        match addresses.is_empty() {
            true => Err(io::Error::other("a proxy in front of nothing")),
            false => Ok(Self { addresses, way, resets, singles, stranded, next, shared, _tasks: tasks }),
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
        self.way.send_replace(TrafficState::new(traffic));
    }

    /// Passes on one piece of the replies that are kept back, and keeps the others.
    pub fn pass_one_reply(&self) {
        self.singles.add_permits(1);
    }

    /// Cuts every connection there is, and says how many there were; new ones are accepted.
    pub fn cut(&self) -> usize {
        let cut = self.shared.iter().map(|shared| {
            let mut connections = shared.connections();
            while connections.try_join_next().is_some() {}
            connections.abort_all();
            connections.len()
        });
        cut.sum()
    }

    /// Keeps back what clients send from now on over the connections that there are; new ones pass. It is not lost: it
    /// reaches the server with [`deliver`](Self::deliver), long after its client has given up and gone.
    pub fn strand(&self) {
        self.stranded.send_replace(self.next.load(Ordering::SeqCst));
    }

    /// Passes on what [`strand`](Self::strand) has kept back.
    pub fn deliver(&self) {
        self.stranded.send_replace(0);
    }

    /// How many connections [`Traffic::ResetAfter`] has ended.
    pub fn resets(&self) -> u64 {
        self.resets.load(Ordering::SeqCst)
    }

    /// Leads whoever connects from now on to another server, the first if there are several, as an address does that moves
    /// from one host to another. Connections that there are stay where they lead.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.shared[0].target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Bytes that clients have sent so far.
    pub fn request_bytes(&self) -> u64 {
        self.shared.iter().map(|shared| shared.requests.bytes.load(Ordering::SeqCst)).sum()
    }

    /// In how many pieces they came: the number of requests, if no client sends several at once. The largest number
    /// of a server, because a question to several servers at once counts once.
    pub fn requests(&self) -> u64 {
        let pieces = self.shared.iter().map(|shared| shared.requests.pieces.load(Ordering::SeqCst));
        pieces.max().unwrap_or_default()
    }

    /// Bytes that the servers have answered so far, whether or not they were passed on.
    pub fn reply_bytes(&self) -> u64 {
        self.shared.iter().map(|shared| shared.replies.bytes.load(Ordering::SeqCst)).sum()
    }

    /// How many connections the servers have ended so far, and no client, and no order of ours.
    pub fn ended_by_servers(&self) -> u64 {
        self.shared.iter().map(|shared| shared.replies.ends.load(Ordering::SeqCst)).sum()
    }
}

impl Upstream {
    fn new(target: SocketAddr, names: Arc<Names>) -> Self {
        let (requests, replies) = (Counter::default(), Counter::default());
        Self { target: Mutex::new(target), requests, replies, connections: Mutex::default(), names }
    }

    fn target(&self) -> SocketAddr {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, gate: Gate, (next, shared): (Arc<AtomicU64>, Arc<Upstream>)) {
    while let Ok((client, _)) = listener.accept().await {
        let gate = Gate { number: next.fetch_add(1, Ordering::SeqCst), ..gate.clone() };
        let connection = serve(client, gate, Arc::clone(&shared));
        let mut connections = shared.connections();
        while connections.try_join_next().is_some() {}
        connections.spawn(connection);
    }
}

async fn serve(mut client: TcpStream, gate: Gate, shared: Arc<Upstream>) {
    // A connection attempt vanishes too: the kernel has accepted it, and nothing else will happen.
    if !gate.clone().passes(|now| now != Traffic::BlackHole).await {
        return;
    }
    let Ok(mut server) = TcpStream::connect(shared.target()).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
    let there = pump(from_client, to_server, gate.clone(), Side::Client, (&shared.requests, &[]));
    let back = pump(from_server, to_client, gate, Side::Server, (&shared.replies, &shared.names));
    let ended = tokio::select! {
        ended = there => ended,
        ended = back => ended,
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
    mut gate: Gate,
    side: Side,
    (counter, names): (&Counter, &[Name]),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await;
        if matches!(read, Ok(0) | Err(_)) {
            counter.ends.fetch_add(1, Ordering::SeqCst);
            return read.map(drop);
        }
        let length = read?;
        counter.bytes.fetch_add(length as u64, Ordering::SeqCst);
        counter.pieces.fetch_add(1, Ordering::SeqCst);
        rename(&mut buffer[..length], names);
        let (now, later) = buffer[..length].split_at(gate.in_time(side, length));
        to.write_all(now).await?;
        if !later.is_empty() {
            if !gate.lets_pass(side).await {
                return Ok(());
            }
            gate.pass_on(later, &mut to).await?;
        }
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
