//! What real servers refuse, and what others do that answer in their place.

use crate::fake::{Fake, WELCOME};
use crate::kit::{Look, attempt_fails, backend, claim, hold, release, renew, server};
use crate::sentinel::Sentinel;
use leasehold_conformance::server::free_port;
use leasehold_core::{ErrorKind, LockBackend, Renewal};
use leasehold_test_stores::servers::RedisServer;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What the first use of this URL says.
async fn first_use(url: &str) -> (ErrorKind, String) {
    attempt_fails(&backend(url), &claim("job")).await
}

#[tokio::test]
async fn full_memory_refuses_new_locks_and_lets_held_ones_go_on() {
    let server = server();
    let backend = backend(&server.url());
    let held = claim("held");
    hold(&backend, &held).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let (kind, told) = attempt_fails(&backend, &claim("job")).await;
    assert!(kind == ErrorKind::Unavailable && told.contains("its memory is full"), "{told}");
    assert_eq!(server.get("leasehold:job"), None);
    assert_eq!(renew(&backend, &held).await.unwrap(), Renewal::Renewed);
    release(&backend, &held).await;
    assert_eq!(server.get("leasehold:held"), None);
}

#[tokio::test]
async fn replica_is_refused_and_named_as_such() {
    let server = server();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let (kind, told) = first_use(&server.url()).await;
    assert!(
        kind == ErrorKind::Unavailable
            && told.contains("it is a replica, and locks are granted by its primary alone; connect to the primary, or use the URL of its Sentinels, \
             redis+sentinel://host:26379/name"),
        "{told}"
    );

    server.command(&["CONFIG", "SET", "replica-serve-stale-data", "no"]).unwrap();
    let (kind, told) = first_use(&server.url()).await;
    assert!(kind == ErrorKind::Unavailable && told.contains("it is a replica"), "{told}");
}

#[tokio::test]
async fn missing_replicas_refuse_new_locks() {
    let server = server();
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).unwrap();
    let (kind, told) = first_use(&server.url()).await;
    assert!(kind == ErrorKind::Unavailable && told.contains("too few of its replicas"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_runs_a_long_script_is_unavailable_until_it_ends() {
    let server = RedisServer::start_with(&["--busy-reply-threshold", "1"]).unwrap();
    let backend = backend(&server.url());
    hold(&backend, &claim("warm")).await;
    let mut script = say(&server, "EVAL 'while true do end' 0");
    // The server answers no request until the script has run for the threshold; then it says why.
    while !first_line(&mut say(&server, "PING")).starts_with("-BUSY") {}
    let (kind, told) = attempt_fails(&backend, &claim("job")).await;
    assert!(kind == ErrorKind::Unavailable && told.contains("it runs a long script"), "{told}");

    assert_eq!(first_line(&mut say(&server, "SCRIPT KILL")), "+OK");
    assert!(first_line(&mut script).starts_with("-ERR"));
    hold(&backend, &claim("job")).await;
}

/// Says one line to the server, on a connection of its own.
fn say(server: &RedisServer, line: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    writeln!(stream, "{line}").unwrap();
    stream
}

fn first_line(stream: &mut TcpStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[tokio::test]
async fn node_of_a_cluster_is_recognised() {
    let port = free_port().unwrap().to_string();
    let server = RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-port", &port]).unwrap();
    for database in ["", "/1"] {
        let (kind, told) = first_use(&format!("{}{database}", server.url())).await;
        assert!(kind == ErrorKind::Misconfigured && told.contains("redis+cluster://"), "{told}");
    }
}

#[tokio::test]
async fn sentinel_is_recognised() {
    let sentinel = Sentinel::start();
    let (kind, told) = first_use(&format!("redis://127.0.0.1:{}", sentinel.port)).await;
    assert!(kind == ErrorKind::Misconfigured && told.contains("it is a Sentinel"), "{told}");
    assert!(told.contains("redis+sentinel://"), "{told}");
}

#[tokio::test]
async fn logins_that_do_not_fit_are_denied() {
    let server = RedisServer::start_with(&["--requirepass", "right"]).unwrap();
    let at = format!("127.0.0.1:{}", server.port());
    for protocol in ["", "?protocol=resp2"] {
        let (kind, told) = first_use(&format!("redis://{at}{protocol}")).await;
        assert!(kind == ErrorKind::Denied && told.contains("it wants a password"), "{told}");
        let (kind, told) = first_use(&format!("redis://:wrong@{at}{protocol}")).await;
        assert!(
            kind == ErrorKind::Denied && told.contains("does not accept this user with this password"),
            "{told}"
        );
        let (kind, _) = first_use(&format!("redis://nobody:right@{at}{protocol}")).await;
        assert_eq!(kind, ErrorKind::Denied);
        hold(&backend(&format!("redis://:right@{at}{protocol}")), &claim(&format!("job{protocol}"))).await;
    }
}

#[tokio::test]
async fn missing_database_is_named() {
    let server = server();
    let (kind, told) = first_use(&format!("{}/99", server.url())).await;
    assert!(kind == ErrorKind::Misconfigured && told.contains("it has no database of this index"), "{told}");
}

#[tokio::test]
async fn old_server_is_refused_with_its_version() {
    let fake = Fake::answering(|_| WELCOME.replace("7.0.15", "6.2.14")).await;
    let (kind, told) = first_use(&fake.url()).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
    assert!(
        told.contains("it is redis 6.2.14") && told.contains("Redis 7.0 or later, or Valkey 7.2 or later"),
        "{told}"
    );
}

#[tokio::test]
async fn server_of_another_protocol_is_recognised() {
    let fake = Fake::answering(|_| "HTTP/1.1 400 Bad Request\r\n\r\n".to_owned()).await;
    let (kind, told) = first_use(&fake.url()).await;
    assert!(
        kind == ErrorKind::Misconfigured && told.contains("does not speak the protocol of Redis"),
        "{told}"
    );
}

#[tokio::test]
async fn proxy_that_does_not_know_hello_is_greeted_in_resp2() {
    let fake = Fake::answering(|words| match words[0].as_str() {
        "HELLO" => "-ERR unknown command 'HELLO', with args beginning with: '3'\r\n".to_owned(),
        "AUTH" if words[1..] == ["pw"] => "+OK\r\n".to_owned(),
        "SELECT" if words[1] == "3" => "+OK\r\n".to_owned(),
        "PING" => "+PONG\r\n".to_owned(),
        _ => "-ERR not now\r\n".to_owned(),
    })
    .await;
    let url = fake.url().replace("redis://", "redis://:pw@");
    let older = backend(&format!("{url}/3"));
    leasehold_core::LockAdmin::init(&*older).await.unwrap();
    assert_eq!(fake.connections(), 2, "one in each protocol");

    let (kind, told) = first_use(&format!("{url}/3?protocol=resp3")).await;
    assert!(kind == ErrorKind::Misconfigured && told.contains("protocol=resp3 cannot be had"), "{told}");
}

/// Redis before version 6 does not know `HELLO`, and refuses the other requests with errors that are not known here.
#[tokio::test]
async fn server_that_is_too_old_for_hello_is_refused() {
    let info = "# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n";
    let fake = Fake::answering(move |words| match words[0].as_str() {
        "HELLO" => "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n".to_owned(),
        "INFO" => format!("${}\r\n{info}\r\n", info.len()),
        _ => "-ERR syntax error\r\n".to_owned(),
    })
    .await;
    let (kind, told) = attempt_fails(&backend(&fake.url()), &claim("job")).await;
    assert_eq!(kind, ErrorKind::Misconfigured, "{told}");
    assert!(told.contains("it is redis 5.0.14, which lacks commands that locks need"), "{told}");
}

#[tokio::test]
async fn errors_keep_their_meaning_on_the_whole_way() {
    let cases = [
        ("MOVED 3999 127.0.0.1:6381", ErrorKind::Misconfigured),
        ("CROSSSLOT Keys in request don't hash to the same slot", ErrorKind::Misconfigured),
        ("TRYAGAIN Multiple keys request during rehashing of slot", ErrorKind::Unavailable),
        ("LOADING Redis is loading the dataset in memory", ErrorKind::Unavailable),
        ("MISCONF Redis is configured to save RDB snapshots", ErrorKind::Unavailable),
        ("ERR unknown command 'EVALSHA', with args beginning with: 'x'", ErrorKind::Misconfigured),
        ("upstream failure", ErrorKind::Indeterminate),
    ];
    for (error, kind) in cases {
        let fake = Fake::refusing(error).await;
        let backend = backend(&fake.url());
        let claim = claim("job");
        assert_eq!(attempt_fails(&backend, &claim).await.0, kind, "{error}");
        assert_eq!(renew(&backend, &claim).await.unwrap_err().kind(), kind, "{error}");
        assert_eq!(backend.release(&claim, Duration::ZERO).await.unwrap_err().kind(), kind, "{error}");
        assert_eq!(fake.connections(), 1, "an error reply breaks no connection");
    }
}

#[tokio::test]
async fn replies_that_no_script_gives_are_unknown_outcomes() {
    for reply in ["+OK\r\n", "$3\r\nabc\r\n", "*0\r\n", "_\r\n"] {
        let fake = Fake::answering(move |words| match words[0].as_str() {
            "HELLO" => WELCOME.to_owned(),
            _ => reply.to_owned(),
        })
        .await;
        let backend = backend(&fake.url());
        let claim = claim("job");
        assert_eq!(attempt_fails(&backend, &claim).await.0, ErrorKind::Indeterminate, "{reply}");
        assert_eq!(renew(&backend, &claim).await.unwrap_err().kind(), ErrorKind::Indeterminate, "{reply}");
        assert_eq!(
            backend.release(&claim, Duration::ZERO).await.unwrap_err().kind(),
            ErrorKind::Indeterminate,
            "{reply}"
        );
    }
}
