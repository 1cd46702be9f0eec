//! What `check` finds.

use crate::kit::*;
use leasehold_conformance::servers::ZooKeeperServer;
use leasehold_core::{LockAdmin, Severity};

async fn codes(url: &str) -> Vec<&'static str> {
    let findings = answered(backend(url).check()).await.unwrap();
    for finding in &findings {
        let must_help = finding.severity > Severity::Info;
        assert!(!must_help || !finding.help.is_empty(), "{finding:?}");
    }
    findings.into_iter().map(|finding| finding.code).collect()
}

#[tokio::test]
async fn a_closed_directory_on_a_well_server_has_nothing_but_the_password_in_the_clear() {
    let server = server();
    let url = format!("zk://app:canary@{}", server.address());
    assert_eq!(codes(&url).await, ["I_NO_DIRECTORY", "W_CLEAR_TEXT", "I_SERVER"]);
    backend(&url).init().await.unwrap();
    assert_eq!(codes(&url).await, ["W_CLEAR_TEXT", "I_SERVER"]);
    let other = format!("zk://other:canary@{}", server.address());
    assert_eq!(codes(&other).await, ["I_NOT_SEEN", "W_CLEAR_TEXT", "I_SERVER"]);
}

#[tokio::test]
async fn an_open_directory_and_a_session_that_was_cut_short_are_warned_of() {
    let server = server();
    let url = format!("{}?session_timeout=10m", server.url());
    backend(&url).init().await.unwrap();
    assert_eq!(codes(&url).await, ["W_SESSION_BOUNDS", "W_OPEN_ACL", "I_SERVER"]);
}

#[tokio::test]
async fn a_session_of_few_ticks_is_warned_of() {
    let server = server();
    let url = format!("{}?session_timeout=300ms", server.url());
    assert!(codes(&url).await.contains(&"W_SHORT_SESSION"));
}

#[tokio::test]
async fn words_that_are_not_allowed_are_asked_for() {
    let server = ZooKeeperServer::start_with(&["4lw.commands.whitelist=srvr,ruok"]).unwrap();
    assert_eq!(codes(&server.url()).await, ["I_NO_DIRECTORY", "I_SERVER", "I_NOT_SEEN"]);
}
