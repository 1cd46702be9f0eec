//! No secret is shown, whatever goes wrong.

use crate::fake::Fake;
use crate::kit::{backend, claim, server, with_prefix};
use leasehold_core::{Error, LockBackend};
use leasehold_redis::RedisBackend;
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use std::error::Error as _;
use std::fmt::Write;

const CANARY: &str = "S3CR3T-CANARY";

/// Everything that the error and its causes show.
fn everything(error: &Error) -> String {
    let mut seen = format!("{error} {error:?} {error:#?} {:?}", error.help());
    let mut cause = error.source();
    while let Some(this) = cause {
        write!(seen, " {this} {this:?}").unwrap();
        cause = this.source();
    }
    seen
}

async fn shows_nothing(backend: &RedisBackend) {
    let error = backend.try_acquire(&claim("job")).await.unwrap_err();
    let seen = format!("{} {backend:?} {backend:#?}", everything(&error));
    assert!(!seen.to_uppercase().contains("CANARY"), "{seen}");
}

#[tokio::test]
async fn refused_login_does_not_show_the_password() {
    let server = RedisServer::start_with(&["--requirepass", "other"]).unwrap();
    for login in [format!(":{CANARY}"), format!("ada:{CANARY}")] {
        for protocol in ["resp2", "resp3"] {
            let url = format!("redis://{login}@127.0.0.1:{}/1?protocol={protocol}", server.port());
            shows_nothing(&backend(&url)).await;
        }
    }
}

#[tokio::test]
async fn reply_that_repeats_the_request_does_not_show_the_password() {
    // Servers and proxies that do not know a command answer with its arguments.
    let parrots: [fn(&[String]) -> String; 6] = [
        |words| {
            format!(
                "-ERR unknown command '{}', with args beginning with: '{}'\r\n",
                words[0],
                words[1..].join("' '")
            )
        },
        |words| format!("-{} {}\r\n", words.last().unwrap(), words.join(" ")),
        |words| format!("{}\r\n", words.join(" ")),
        |words| format!("-ERR {}\r\n", words.join(" ")),
        |words| format!("-{} '{}'\r\n", words[words.len() - 3], words.join("' '")),
        |words| format!("-NOPERM no permissions to run the '{}' command\r\n", words[words.len() - 3]),
    ];
    for parrot in parrots {
        // The first looks like a password, the second like a word of a message.
        for canary in [CANARY, "SECRETCANARY"] {
            let fake = Fake::answering(parrot).await;
            let url = fake.url().replace("redis://", &format!("redis://ada:{canary}@"));
            shows_nothing(&backend(&url)).await;
        }
    }
}

#[tokio::test]
async fn server_that_cannot_be_reached_does_not_show_the_password() {
    let mut server = server();
    server.kill();
    shows_nothing(&backend(&format!("redis://ada:{CANARY}@127.0.0.1:{}", server.port()))).await;
    shows_nothing(&backend(&format!("redis+unix://ada:{CANARY}@/nowhere/redis.sock"))).await;
    shows_nothing(&backend(&format!("redis://:{CANARY}@no-such-host.invalid"))).await;
}

#[test]
fn refused_url_does_not_show_the_password() {
    let urls = [
        format!("redis://ada:{CANARY}@h/x"),
        format!("redis://ada:{CANARY}@h?timout=1s"),
        format!("redis://ada:{CANARY}@a,b"),
        format!("redis+unix://ada:{CANARY}@relative"),
        format!("redis+unix:ada:{CANARY}"),
        format!("redys://ada:{CANARY}@h"),
    ];
    for url in urls {
        let error = StoreUrl::parse(&url).and_then(|_| with_prefix(&url, "")).unwrap_err();
        assert!(!everything(&error).contains(CANARY), "{}", everything(&error));
    }
}

#[tokio::test]
async fn owner_id_is_not_shown_in_full() {
    let fake = Fake::answering(|words| match words[0].as_str() {
        "HELLO" => crate::fake::WELCOME.to_owned(),
        _ => format!("-WEIRD {}\r\n", words.join(" ")),
    })
    .await;
    let claim = claim("job");
    let error = backend(&fake.url()).try_acquire(&claim).await.unwrap_err();
    let seen = everything(&error);
    let owner = claim.owner().to_hex();
    assert!(seen.contains(&owner[..8]) && !seen.contains(&owner), "{seen}");
}
