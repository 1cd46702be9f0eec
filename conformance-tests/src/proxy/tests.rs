//! What it does, seen from both sides of it.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::{Proxy, Traffic};
use std::io;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(10);
/// Long enough for what passes to have come.
const MOMENT: Duration = Duration::from_millis(100);

/// A client and a server with the proxy between them.
struct Line {
    proxy: Proxy,
    client: TcpStream,
    server: TcpStream,
    listener: TcpListener,
}

async fn line() -> Line {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::to(listener.local_addr().unwrap()).await.unwrap();
    let client = TcpStream::connect(proxy.address()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    server.set_nodelay(true).unwrap();
    Line { proxy, client, server, listener }
}

/// What comes next; `None` if nothing does.
async fn next(stream: &mut TcpStream, within: Duration) -> Option<io::Result<Vec<u8>>> {
    let mut bytes = vec![0; 1000];
    let read = timeout(within, stream.read(&mut bytes)).await.ok()?;
    Some(read.map(|length| bytes[..length].to_vec()))
}

async fn arrives(stream: &mut TcpStream, bytes: &[u8]) {
    let mut came = vec![0; bytes.len()];
    timeout(LONG, stream.read_exact(&mut came)).await.unwrap().unwrap();
    assert_eq!(came, bytes);
}

#[tokio::test]
async fn direction_that_is_held_passes_when_it_may() {
    let Line { proxy, mut client, mut server, .. } = line().await;
    proxy.set(Traffic::HoldRequests);
    client.write_all(b"asked").await.unwrap();
    server.write_all(b"told").await.unwrap();
    arrives(&mut client, b"told").await;
    assert!(next(&mut server, MOMENT).await.is_none());
    proxy.set(Traffic::HoldReplies);
    arrives(&mut server, b"asked").await;
    server.write_all(b"answered").await.unwrap();
    assert!(next(&mut client, MOMENT).await.is_none());
    proxy.set(Traffic::Pass);
    arrives(&mut client, b"answered").await;
}

#[tokio::test]
async fn replies_are_kept_back_from_the_one_that_was_named() {
    let Line { proxy, mut client, mut server, .. } = line().await;
    for _ in 0..2 {
        proxy.set(Traffic::HoldRepliesFrom(2));
        for reply in [b"one", b"two"] {
            server.write_all(reply).await.unwrap();
            arrives(&mut client, reply).await;
        }
        server.write_all(b"three").await.unwrap();
        assert!(next(&mut client, MOMENT).await.is_none());
        client.write_all(b"asked").await.unwrap();
        arrives(&mut server, b"asked").await;
        proxy.set(Traffic::Pass);
        arrives(&mut client, b"three").await;
    }
}

#[tokio::test]
async fn single_reply_of_those_held_may_pass() {
    let Line { proxy, mut client, mut server, .. } = line().await;
    proxy.set(Traffic::HoldReplies);
    server.write_all(b"one").await.unwrap();
    assert!(next(&mut client, MOMENT).await.is_none());
    proxy.pass_one_reply();
    arrives(&mut client, b"one").await;
    server.write_all(b"two").await.unwrap();
    assert!(next(&mut client, MOMENT).await.is_none());
    proxy.set(Traffic::Pass);
    arrives(&mut client, b"two").await;
}

#[tokio::test]
async fn delay_is_kept_and_rate_is_not_exceeded() {
    let Line { proxy, mut client, mut server, .. } = line().await;
    let start = Instant::now();
    proxy.set(Traffic::Slow(NonZeroUsize::MAX, Duration::from_millis(50)));
    client.write_all(b"asked").await.unwrap();
    arrives(&mut server, b"asked").await;
    assert!(start.elapsed() >= Duration::from_millis(50));
    let start = Instant::now();
    proxy.set(Traffic::Slow(NonZeroUsize::new(100).unwrap(), Duration::from_millis(10)));
    server.write_all(&[7; 1000]).await.unwrap();
    arrives(&mut client, &[7; 1000]).await;
    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn sliced_message_arrives_in_pieces() {
    let Line { proxy, mut client, mut server, .. } = line().await;
    proxy.set(Traffic::Slow(NonZeroUsize::new(3).unwrap(), Duration::from_millis(1)));
    client.write_all(b"a whole message").await.unwrap();
    let first = next(&mut server, LONG).await.unwrap().unwrap();
    assert!(first.len() < 15 && first.len() % 3 == 0, "{first:?}");
    arrives(&mut server, &b"a whole message"[first.len()..]).await;
}

#[tokio::test]
async fn connection_is_reset_behind_the_named_byte_and_others_pass() {
    for bytes in [0, 3, 5, 7, 8] {
        let Line { proxy, mut client, mut server, listener } = line().await;
        proxy.set(Traffic::ResetAfter(bytes));
        client.write_all(b"asked").await.unwrap();
        let mut heard = Vec::new();
        let ended = loop {
            match next(&mut server, LONG).await.unwrap() {
                Ok(more) if more.is_empty() => break None,
                Ok(more) => heard.extend(more),
                Err(error) => break Some(error.kind()),
            }
            if heard == b"asked" {
                server.write_all(b"told").await.unwrap();
            }
        };
        assert_eq!(ended, Some(io::ErrorKind::ConnectionReset), "after {bytes} bytes");
        let mut told = Vec::new();
        let ended = client.read_to_end(&mut told).await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::ConnectionReset, "after {bytes} bytes");
        // A reset may discard bytes that were not read yet.
        assert!(heard.len() + told.len() <= bytes as usize, "{heard:?}, {told:?} of {bytes} bytes");
        assert_eq!(proxy.resets(), 1);
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut server, _) = timeout(LONG, listener.accept()).await.unwrap().unwrap();
        client.write_all(b"a new one, longer than any before").await.unwrap();
        arrives(&mut server, b"a new one, longer than any before").await;
    }
}

#[tokio::test]
async fn connection_is_counted_as_ended_only_if_its_server_ended_it() {
    let Line { proxy, mut client, server, listener } = line().await;
    drop(server);
    assert_eq!(next(&mut client, LONG).await.unwrap().unwrap(), b"");
    assert_eq!(proxy.ended_by_servers(), 1);
    for cut in [true, false] {
        let client = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut server, _) = timeout(LONG, listener.accept()).await.unwrap().unwrap();
        if cut {
            proxy.cut();
        } else {
            drop(client);
        }
        assert_eq!(next(&mut server, LONG).await.unwrap().unwrap(), b"");
    }
    assert_eq!(proxy.ended_by_servers(), 1);
}
