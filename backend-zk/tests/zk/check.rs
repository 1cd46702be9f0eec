//! What `check` finds.

use crate::kit::*;
use leasehold_core::{LockAdmin, Severity};
use leasehold_test_stores::servers::ZooKeeperServer;
use std::io::Write;
use std::process::{Command, Stdio};
use zookeeper_client::{Acls, CreateMode};

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
    assert_eq!(codes(&other).await, ["I_NOT_SEEN", "W_DENIED", "W_CLEAR_TEXT", "I_SERVER"]);
    let look = Look::with_user(&server, Some("app:canary")).await;
    assert_eq!(look.children("/leasehold").await, Vec::<String>::new(), "to look for a right makes nothing");
}

/// Told to the server's own shell, what is printed makes what `init` makes, with the same rights.
#[tokio::test]
async fn what_is_printed_makes_the_directory() {
    let server = server();
    for user in ["", "app:canary@"] {
        let at = |base: &str| format!("zk://{user}{}{base}", server.address());
        let (made, printed) = (at("/made"), at("/a%20b/printed"));
        backend(&made).init().await.unwrap();
        let login = user.strip_suffix('@');
        let login_first = login.map(|login| format!("addauth digest {login}\n")).unwrap_or_default();
        let script = login_first + &backend(&printed).init_script().unwrap();
        let said = zkcli(&server.address(), &script);
        let look = Look::with_user(&server, login).await;
        let rights = async |path: &str| look.0.get_acl(path).await.expect(&said).0;
        let expected = rights("/made").await;
        assert_eq!(
            (rights("/a b").await, rights("/a b/printed").await),
            (expected.clone(), expected),
            "{said}"
        );
        look.wipe("/a b/printed").await;
        look.wipe("/a b").await;
        look.wipe("/made").await;
    }
}

fn zkcli(server: &str, script: &str) -> String {
    let mut shell = Command::new("java")
        .args(["-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"])
        .args(["org.apache.zookeeper.ZooKeeperMain", "-server", server])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[tokio::test]
async fn an_open_directory_and_a_session_that_was_cut_short_are_warned_of() {
    let server = server();
    let url = format!("{}?session_timeout=10m", server.url());
    backend(&url).init().await.unwrap();
    assert_eq!(codes(&url).await, ["W_SESSION_BOUNDS", "W_OPEN_ACL", "I_SERVER"]);
}

/// To delete the node of a holder is a right to the directory of its lock.
#[tokio::test]
async fn it_is_the_directory_of_a_lock_that_lets_others_free_it() {
    let server = server();
    let url = format!("zk://app:canary@{}", server.address());
    let backend = backend(&url);
    backend.init().await.unwrap();
    let look = Look::with_user(&server, Some("app:canary")).await;
    let warning = async || {
        let findings = answered(backend.check()).await.unwrap();
        findings.into_iter().find(|finding| finding.code == "W_OPEN_ACL").map(|finding| finding.message)
    };
    look.0
        .create(&format!("{BASE}/closed"), b"", &CreateMode::Persistent.with_acls(Acls::creator_all()))
        .await
        .unwrap();
    assert_eq!(warning().await, None);
    look.make(&format!("{BASE}/nightly"), CreateMode::Persistent).await;
    let told = warning().await.unwrap();
    assert!(told.ends_with("can delete locks in /leasehold/nightly"), "{told}");
    look.delete(&format!("{BASE}/nightly")).await;
    look.0.set_acl(BASE, &Acls::anyone_all(), None).await.unwrap();
    let told = warning().await.unwrap();
    assert!(told.contains("can make and delete the directories of locks in /leasehold"), "{told}");
}

#[tokio::test]
async fn a_session_of_few_ticks_is_warned_of() {
    let server = ZooKeeperServer::start_with(&["tickTime=1000"]).unwrap();
    let url = format!("{}?session_timeout=2s", server.url());
    assert!(codes(&url).await.contains(&"W_SHORT_SESSION"));
}

#[tokio::test]
async fn words_that_are_not_allowed_are_asked_for() {
    let server = ZooKeeperServer::start_with(&["4lw.commands.whitelist=srvr,ruok"]).unwrap();
    assert_eq!(codes(&server.url()).await, ["I_NO_DIRECTORY", "I_SERVER", "I_NOT_SEEN"]);
}
