//! A server that says what a test wants: for replies that no real server can be brought to give.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What a healthy server says to `HELLO`.
pub(crate) const WELCOME: &str = "%4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";

/// The answer to one command, given its words.
type Answer = dyn Fn(&[String]) -> String + Send + Sync;

#[derive(Debug)]
pub(crate) struct Fake {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Fake {
    /// A server that answers each command so. An empty answer closes the connection.
    pub(crate) async fn answering(answer: impl Fn(&[String]) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::<AtomicUsize>::default();
        let (answer, counter): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&connections));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                served.spawn(serve(stream, Arc::clone(&answer)));
            }
        });
        Self { address, connections, _tasks: tasks }
    }

    /// A server that is healthy until a script is called, and then gives this error.
    pub(crate) async fn refusing(error: &'static str) -> Self {
        Self::answering(move |words| match words[0].as_str() {
            "HELLO" => WELCOME.to_owned(),
            _ => format!("-{error}\r\n"),
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, answer: Arc<Answer>) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(length @ 1..) => received.extend_from_slice(&buffer[..length]),
            _ => return,
        }
        while let Some((words, used)) = command(&received) {
            received.drain(..used);
            let reply = answer(&words);
            if reply.is_empty() || stream.write_all(reply.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The first command in what was received, and how long it is; `None` if the rest is yet to come.
pub(crate) fn command(received: &[u8]) -> Option<(Vec<String>, usize)> {
    let (count, mut at) = number(received, 0)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, start) = number(received, at)?;
        let word = received.get(start..start + length)?;
        words.push(String::from_utf8_lossy(word).into_owned());
        at = start + length + 2;
    }
    (at <= received.len()).then_some((words, at))
}

/// The number in the line that begins here, and where the next line begins.
fn number(received: &[u8], at: usize) -> Option<(usize, usize)> {
    let line = received.get(at..)?;
    let end = line.windows(2).position(|pair| pair == b"\r\n")?;
    let number = std::str::from_utf8(&line[1..end]).unwrap().parse().unwrap();
    Some((number, at + end + 2))
}
