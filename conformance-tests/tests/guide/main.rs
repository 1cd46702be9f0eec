//! What the guides say of this suite: the backend and the server that `docs/backend-author.md` shows are the ones that are tested,
//! and the cases that the guides name exist.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

mod server;

use leasehold_conformance::proxy::Traffic;
use leasehold_conformance::{Store, by_id};
use server::ServerStore;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const BACKEND_AUTHOR: &str = include_str!("../../../docs/backend-author.md");
const SEMANTICS: &str = include_str!("../../../docs/semantics.md");

#[test]
fn guide_shows_the_tested_programs_to_the_letter() {
    let pieces = BACKEND_AUTHOR.split("```rust\n").skip(1).map(|rest| rest.split_once("```\n").unwrap().0);
    let shown: Vec<&str> = pieces.take(2).collect();
    assert_eq!(shown[0], include_str!("../toy.rs"), "copy tests/toy.rs into docs/backend-author.md");
    assert_eq!(shown[1], include_str!("server.rs"), "copy tests/guide/server.rs into docs/backend-author.md");
}

/// A server that answers does so within this time, on any machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// How long an answer is waited for that must not come.
const SILENCE: Duration = Duration::from_millis(300);

/// The first bytes of an answer to a `PING`.
fn ping(address: &str, within: Duration) -> std::io::Result<[u8; 5]> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(within))?;
    connection.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    connection.read_exact(&mut answer).map(|()| answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn server_of_the_guide_does_as_its_hooks_say() {
    // One file is both programs; Debian has them in packages of their own.
    let path = std::env::var_os("PATH").unwrap();
    let found = ["redis-server", "redis-check-rdb"].into_iter().find_map(|name| {
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
    });
    if found.is_none() && std::env::var_os("LEASEHOLD_SKIP_MISSING").is_some() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("redis-server");
    std::os::unix::fs::symlink(found.unwrap(), &program).unwrap();
    let store = ServerStore::start(program).unwrap();
    let (proxy, through) = store.proxied(Duration::from_millis(250)).await.unwrap();
    let through = through.strip_suffix(" 250").unwrap();
    assert_eq!(ping(through, ANSWERS_WITHIN).unwrap(), *b"+PONG");
    proxy.set(Traffic::HoldReplies);
    assert!(ping(through, SILENCE).is_err(), "a reply that is kept back");
    proxy.set(Traffic::Pass);
    store.pause().await.unwrap();
    assert!(ping(&store.address(), SILENCE).is_err(), "the answer of a server that stands still");
    store.resume().await.unwrap();
    store.kill().await.unwrap();
    assert!(ping(&store.address(), SILENCE).is_err(), "the answer of a server that is dead");
    store.restart(true).await.unwrap();
    assert_eq!(ping(&store.address(), ANSWERS_WITHIN).unwrap(), *b"+PONG");
}

#[test]
fn cases_that_the_guides_name_exist() {
    for guide in [BACKEND_AUTHOR, SEMANTICS] {
        let named: Vec<String> =
            guide.split(|c: char| !c.is_alphanumeric() && c != '–').flat_map(cases).collect();
        assert!(named.len() > 50, "{named:?}");
        let missing: Vec<&String> = named.iter().filter(|id| by_id(id).is_none()).collect();
        assert!(missing.is_empty(), "no such cases: {missing:?}");
    }
}

/// The ids in a word: `A02` is one, and `J06–J09` are four.
fn cases(word: &str) -> Vec<String> {
    let number = |id: &str| {
        let (family, number) = id.split_at_checked(1)?;
        let is_id = family.chars().all(|c| c.is_ascii_uppercase()) && number.len() == 2;
        is_id.then(|| number.parse::<u8>().ok()).flatten()
    };
    let (first, last) = word.split_once('–').unwrap_or((word, word));
    match (number(first), number(last)) {
        (Some(from), Some(to)) => (from..=to).map(|number| format!("{}{number:02}", &first[..1])).collect(),
        _ => Vec::new(),
    }
}
