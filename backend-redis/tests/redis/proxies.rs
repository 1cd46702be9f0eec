//! A real server behind a proxy that does not pass every command on: the lock works where it can, and a message says what was
//! refused where it cannot.

use crate::fake::command;
use crate::kit::{answered, attempt_fails, backend, claim, hold, queue, release, renew, told, waiter};
use futures_util::future::join_all;
use leasehold_core::{Attempt, ErrorKind, Finding, LockAdmin, LockBackend, Renewal, Severity};
use leasehold_redis::RedisBackend;
use leasehold_test_stores::servers::RedisServer;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What proxies answer to a command that they do not know; an empty answer ends the connection.
const WORDINGS: [&str; 6] = [
    "-ERR unknown command '{}'",
    "-unsupported command '{}'",
    "-ERR handle request, it is not allowed",
    "",
    "-ERR unknown command {}",
    "-NOPERM no permission",
];

/// A proxy that refuses commands.
struct RefusingProxy {
    address: SocketAddr,
    refused: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

/// What is to be sent to the client behind the next reply of the server: answers keep their order.
#[derive(Default)]
struct Order {
    awaits_reply: bool,
    behind_reply: Vec<u8>,
}

impl RefusingProxy {
    async fn to(server: &RedisServer, wording: &'static str, commands: &'static str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, refused) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let (target, counter) = (server.port(), Arc::clone(&refused));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
                served.spawn(serve(client, server, wording, commands, Arc::clone(&counter)));
            }
        });
        Self { address, refused, _tasks: tasks }
    }

    fn url(&self, query: &str) -> String {
        format!("redis://:right@{}{query}", self.address)
    }
}

async fn serve(
    client: TcpStream,
    server: TcpStream,
    wording: &'static str,
    commands: &'static str,
    counter: Arc<AtomicUsize>,
) {
    let (mut from_client, to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (to_client, order) = (Arc::new(tokio::sync::Mutex::new(to_client)), Arc::<Mutex<Order>>::default());
    let replies = async {
        let mut buffer = [0; 65536];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            let mut to_client = to_client.lock().await;
            let behind = {
                let mut order = order.lock().unwrap();
                order.awaits_reply = false;
                std::mem::take(&mut order.behind_reply)
            };
            let sent = async {
                to_client.write_all(&buffer[..length]).await?;
                to_client.write_all(&behind).await
            };
            if sent.await.is_err() {
                return;
            }
        }
    };
    let requests = async {
        let (mut received, mut buffer) = (Vec::new(), [0; 65536]);
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            received.extend_from_slice(&buffer[..length]);
            while let Some((words, used)) = command(&received) {
                let request: Vec<u8> = received.drain(..used).collect();
                let word = words[0].to_uppercase();
                if !commands.split(' ').any(|refused| refused == word) {
                    order.lock().unwrap().awaits_reply = true;
                    if to_server.write_all(&request).await.is_err() {
                        return;
                    }
                    continue;
                }
                counter.fetch_add(1, Ordering::SeqCst);
                if wording.is_empty() {
                    return;
                }
                let refusal = format!("{}\r\n", wording.replace("{}", &word));
                let mut to_client = to_client.lock().await;
                let waits = {
                    let mut order = order.lock().unwrap();
                    if order.awaits_reply {
                        order.behind_reply.extend_from_slice(refusal.as_bytes());
                    }
                    order.awaits_reply
                };
                if !waits && to_client.write_all(refusal.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = replies => {}
        () = requests => {}
    }
}

fn server() -> RedisServer {
    RedisServer::start_with(&["--requirepass", "right"]).unwrap()
}

/// Asks until the answer is one of a lock: a proxy may have ended the connection.
async fn granted(backend: &RedisBackend, claim: &leasehold_core::Claim) {
    let start = Instant::now();
    while !matches!(answered(backend.try_acquire(claim)).await, Ok(Attempt::Granted(_))) {
        assert!(start.elapsed() < Duration::from_secs(20), "never granted");
        let _ = tokio::time::timeout(Duration::from_millis(500), backend.changed(claim)).await;
    }
}

/// All that a holder and a waiter need. What is found names no missing right but that to what the proxy refuses.
async fn works(url: &str, refused: &[&str]) {
    let (holding, waiting) = (backend(url), backend(url));
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&holding, &holder).await;
    queue(&waiting, &next).await;
    assert_eq!(renew(&holding, &holder).await.unwrap(), Renewal::Renewed);
    assert_eq!(holding.inspect(holder.name()).await.unwrap().len(), 1);
    release(&holding, &holder).await;
    granted(&waiting, &next).await;
    while waiting.release(&next, Duration::ZERO).await.is_err() {}
    let findings = answered(holding.check()).await.unwrap();
    let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    for Finding { message, help, .. } in findings {
        let named =
            message.split_once("this user may not ").map(|(_, right)| right.trim_start_matches("run "));
        let named = named.map(|right| right.split(' ').next().unwrap());
        assert!(named.is_none_or(|right| refused.contains(&right)), "this right is not missing: {message}");
        let is_of_locks =
            ["that locks need", "use Redis 7.0"].map(|words| message.contains(words) || help.contains(words));
        assert_eq!(is_of_locks, [false; 2], "{message}; {help}");
    }
}

#[tokio::test]
async fn lock_works_without_each_command_that_it_can_do_without() {
    let all = ["CLIENT", "INFO", "CONFIG", "SUBSCRIBE", "HELLO", "HELLO INFO CONFIG CLIENT SUBSCRIBE"];
    let each = all.iter().flat_map(|commands| WORDINGS.map(|wording| works_without(commands, wording)));
    join_all(each).await;
}

async fn works_without(commands: &'static str, wording: &'static str) {
    let server = server();
    let proxy = RefusingProxy::to(&server, wording, commands).await;
    for query in ["", "?protocol=resp2"] {
        let (url, commands) = (proxy.url(query), commands.split(' ').collect::<Vec<_>>());
        let worked = tokio::time::timeout(Duration::from_secs(60), works(&url, &commands)).await;
        worked.unwrap_or_else(|_| panic!("{commands:?} {wording:?} {query}"));
    }
    let refused = proxy.refused.load(Ordering::SeqCst);
    assert!(refused > 0, "{commands} {wording:?}: nothing was refused");
}

#[tokio::test]
async fn protocol_resp2_sends_no_hello() {
    let server = server();
    let proxy = RefusingProxy::to(&server, "", "HELLO").await;
    works(&proxy.url("?protocol=resp2"), &[]).await;
    assert_eq!(proxy.refused.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn refused_login_is_named_by_the_answer_of_the_server() {
    let server = server();
    for (wording, kind, expected) in [
        (WORDINGS[0], ErrorKind::Misconfigured, "it does not know AUTH"),
        (WORDINGS[1], ErrorKind::Unavailable, "it refused AUTH, in words that are not known here"),
        (WORDINGS[2], ErrorKind::Unavailable, "it refused AUTH, in words that are not known here"),
        (WORDINGS[3], ErrorKind::Unavailable, "it closed the connection when it was sent AUTH"),
        (WORDINGS[4], ErrorKind::Misconfigured, "it does not know AUTH"),
        (WORDINGS[5], ErrorKind::Denied, "this user may not run AUTH"),
    ] {
        // In RESP3 the login is a part of HELLO, and the proxy has nothing to refuse.
        works(&RefusingProxy::to(&server, wording, "AUTH").await.url(""), &[]).await;
        for (commands, query) in [("AUTH", "?protocol=resp2"), ("AUTH HELLO", "")] {
            let proxy = RefusingProxy::to(&server, wording, commands).await;
            let (said, told) = attempt_fails(&backend(&proxy.url(query)), &claim("job")).await;
            assert_eq!(said, kind, "{told}");
            assert!(told.contains(expected) && !told.contains("right"), "{wording}: {told}");
        }
    }
}

/// A refusal of the login is not tried again in the other protocol.
#[tokio::test]
async fn wrong_password_is_refused_on_one_connection() {
    let server = server();
    let proxy = RefusingProxy::to(&server, "", "AUTH").await;
    let url = proxy.url("").replace("right", "wrong");
    let (kind, told) = attempt_fails(&backend(&url), &claim("job")).await;
    assert_eq!(kind, ErrorKind::Denied, "{told}");
    assert_eq!(proxy.refused.load(Ordering::SeqCst), 0, "no AUTH was sent");
}

#[tokio::test]
async fn resp3_that_was_asked_for_and_refused_is_said() {
    let server = server();
    for wording in WORDINGS {
        let proxy = RefusingProxy::to(&server, wording, "HELLO").await;
        let error =
            answered(backend(&proxy.url("?protocol=resp3")).try_acquire(&claim("job"))).await.unwrap_err();
        assert!(told(&error).contains("protocol=resp3 cannot be had: "), "{}", told(&error));
    }
}
