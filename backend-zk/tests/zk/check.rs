//! The findings of `check`.

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
async fn closed_directory_on_a_healthy_server_has_only_the_password_finding() {
    let server = server();
    let url = format!("zk://app:canary@{}", server.address());
    assert_eq!(codes(&url).await, ["I_NO_DIRECTORY", "W_CLEAR_TEXT", "I_SERVER"]);
    backend(&url).init().await.unwrap();
    assert_eq!(codes(&url).await, ["W_CLEAR_TEXT", "I_SERVER"]);
    let other = format!("zk://other:canary@{}", server.address());
    assert_eq!(codes(&other).await, ["I_NOT_SEEN", "W_CLEAR_TEXT", "I_SERVER", "E_TRIAL"]);
    let look = Look::with_user(&server, Some("app:canary")).await;
    assert_eq!(look.children("/leasehold").await, Vec::<String>::new(), "the trial leaves something");
}

/// `zkCli.sh` makes the same nodes with the same rights as `init`.
#[tokio::test]
async fn printed_commands_make_the_directory() {
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
async fn open_directory_and_shortened_session_are_warned_of() {
    let server = server();
    let url = format!("{}?session_timeout=10m", server.url());
    backend(&url).init().await.unwrap();
    assert_eq!(codes(&url).await, ["W_SESSION_BOUNDS", "W_OPEN_ACL", "I_SERVER"]);
}

/// The right to delete the node of a holder is a right to the directory of its lock.
#[tokio::test]
async fn open_directory_of_one_lock_is_warned_of() {
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
async fn session_of_few_ticks_is_warned_of() {
    let server = ZooKeeperServer::start_with(&["tickTime=1000"]).unwrap();
    let url = format!("{}?session_timeout=2s", server.url());
    assert!(codes(&url).await.contains(&"W_SHORT_SESSION"));
}

#[tokio::test]
async fn forbidden_four_letter_words_are_asked_for() {
    let server = ZooKeeperServer::start_with(&["4lw.commands.whitelist=srvr,ruok"]).unwrap();
    assert_eq!(codes(&server.url()).await, ["I_NO_DIRECTORY", "I_SERVER", "I_NOT_SEEN"]);
}

/// A lock needs three nodes at a time, and a fourth for its directory.
#[tokio::test]
async fn quota_that_stops_locks_fails_the_trial() {
    let server = ZooKeeperServer::start_with(&["-Dzookeeper.enforceQuota=true"]).unwrap();
    let url = format!("zk://{}/shop", server.address());
    let backend = backend(&url);
    backend.init().await.unwrap();
    let look = Look::at(&server).await;
    for path in ["/zookeeper/quota/shop", "/zookeeper/quota/shop/zookeeper_limits"] {
        look.make(path, CreateMode::Persistent).await;
    }
    look.0
        .set_data(
            "/zookeeper/quota/shop/zookeeper_limits",
            b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1",
            None,
        )
        .await
        .unwrap();
    look.make("/zookeeper/quota/shop/zookeeper_stats", CreateMode::Persistent).await;
    look.0.set_data("/zookeeper/quota/shop/zookeeper_stats", b"count=1,bytes=0", None).await.unwrap();
    let findings = answered(backend.check()).await.unwrap();
    let trial = findings.iter().find(|finding| finding.code == "E_TRIAL").map(|finding| &*finding.message);
    let used_up = "the quota of the directory of the locks is used up";
    assert_eq!(trial, Some(&*format!("a trial lock could not be acquired: {used_up}")), "{findings:?}");
}

#[tokio::test]
async fn servers_of_several_ensembles_are_an_error() {
    let servers = [server(), server()];
    let [one, other] = servers.each_ref().map(ZooKeeperServer::address);
    let balancer = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = balancer.local_addr().unwrap();
    let ports = servers.each_ref().map(|server| server.port());
    let _task = tokio::spawn(async move {
        for port in ports.iter().cycle() {
            let (mut client, _) = balancer.accept().await.unwrap();
            let mut server = tokio::net::TcpStream::connect(("127.0.0.1", *port)).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    for hosts in [format!("{one},{other}"), behind.to_string()] {
        let findings = answered(backend(&format!("zk://{hosts}")).check()).await.unwrap();
        let found = findings.iter().find(|finding| finding.code == "E_SERVERS");
        let found = found.unwrap_or_else(|| panic!("{hosts}: {findings:?}"));
        assert!(found.message.contains("2 servers, one with"), "{found:?}");
    }
    assert!(!codes(&format!("zk://{one}")).await.contains(&"E_SERVERS"));
}

/// What guides for hardening switch on or off. Locks need none of it.
#[tokio::test]
async fn hardened_server_serves_its_user_and_refuses_others_by_name() {
    let server = ZooKeeperServer::start_with(&[
        "-Dzookeeper.enforce.auth.enabled=true",
        "-Dzookeeper.enforce.auth.schemes=digest",
        "-Dzookeeper.extendedTypesEnabled=false",
        "-Dzookeeper.skipACL=no",
        "admin.enableServer=false",
        "maxClientCnxns=20",
    ])
    .unwrap();
    let locks = backend(&format!("zk://app:canary@{}", server.address()));
    let claim = claim("job");
    hold(&locks, &claim).await;
    assert_eq!(renew(&locks, &claim).await.unwrap(), leasehold_core::Renewal::Renewed);
    release(&locks, &claim).await;
    let error = answered(backend(&server.url()).check()).await.unwrap_err();
    assert!(error.is_outage() || error.kind() == leasehold_core::ErrorKind::Denied, "{error}");
}
