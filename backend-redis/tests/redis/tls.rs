//! TLS against a real server, with certificates made for the test.

use crate::authority::{Authority, QUICK};
use crate::kit::{
    answered, attempt_fails, backend, claim, hold, keys, queue, release, renew, server, told, waiter,
    with_prefix,
};
use crate::sentinel::Sentinel;
use leasehold_conformance::server::free_port;
use leasehold_core::{Claim, ErrorKind, LockBackend, Renewal};
use leasehold_test_stores::servers::RedisCluster;
use rcgen::date_time_ymd;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// What the first use of this URL says, and that it says it in time.
async fn refused(url: &str) -> (ErrorKind, String) {
    let start = Instant::now();
    let refused = attempt_fails(&backend(url), &claim("job")).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}: {}", start.elapsed(), refused.1);
    refused
}

#[tokio::test]
async fn server_with_a_trusted_certificate_serves_locks() {
    let authority = Authority::new();
    let server = authority.plain_server();
    for (host, scheme) in [("localhost", "rediss"), ("127.0.0.1", "valkeys")] {
        let url = server.url(host, &authority.ca()).replace("rediss", scheme);
        hold(&backend(&url), &claim(host)).await;
    }
    // Nothing was taken from the process: two libraries with two providers may share it.
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

#[tokio::test]
async fn certificate_of_an_unknown_authority_is_refused_with_the_way_out() {
    let authority = Authority::new();
    let server = authority.plain_server();
    let (kind, told) = refused(&server.url("localhost", &Authority::new().ca())).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
    assert!(told.contains("certificate is not trusted") && told.contains("tls_ca="), "{told}");

    // The authorities of this host do not know it either, if there are any here.
    match with_prefix(&server.url("localhost", ""), "") {
        Ok(backend) => assert_eq!(attempt_fails(&backend, &claim("job")).await.0, ErrorKind::Misconfigured),
        Err(error) => assert!(error.to_string().contains("no list of certificate authorities"), "{error}"),
    }
}

#[tokio::test]
async fn certificate_for_another_host_or_of_another_time_is_refused() {
    let authority = Authority::new();
    authority.certify("elsewhere", &["redis.example"]).unwrap();
    let server = authority.server("elsewhere", "no");
    let (kind, told) = refused(&server.url("localhost", &authority.ca())).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
    assert!(told.contains("not valid for name \"localhost\"") && told.contains("redis.example"), "{told}");

    let expired = authority.certify_with("old", &["localhost"], |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    expired.unwrap();
    let server = authority.server("old", "no");
    let (kind, told) = refused(&server.url("localhost", &authority.ca())).await;
    assert!(kind == ErrorKind::Misconfigured && told.contains("expired"), "{told}");
}

#[tokio::test]
async fn server_that_authenticates_clients_is_shown_a_certificate() {
    let authority = Authority::new();
    authority.certify("server", &["localhost"]).unwrap();
    authority.certify("client", &["worker"]).unwrap();
    let server = authority.server("server", "yes");
    let known = format!("{}&{}", authority.ca(), authority.identity("client"));
    hold(&backend(&server.url("localhost", &known)), &claim("job")).await;

    let stranger = Authority::new();
    stranger.certify("client", &["worker"]).unwrap();
    let unknown = format!("{}&{}", authority.ca(), stranger.identity("client"));
    for query in [authority.ca(), unknown] {
        let (kind, told) = refused(&server.url("localhost", &query)).await;
        assert_eq!(kind, ErrorKind::Denied, "{told}");
        assert!(told.contains("tls_cert="), "{told}");
    }
}

#[tokio::test]
async fn unverified_server_is_used_only_when_asked_for() {
    let authority = Authority::new();
    authority.certify("elsewhere", &["redis.example"]).unwrap();
    let server = authority.server("elsewhere", "no");
    hold(&backend(&server.url("localhost", "tls_insecure=yes")), &claim("job")).await;
    let (kind, _) = refused(&server.url("localhost", &format!("{}&tls_insecure=no", authority.ca()))).await;
    assert_eq!(kind, ErrorKind::Misconfigured);
}

#[tokio::test]
async fn renewed_certificate_is_read_again_for_the_next_connection() {
    let authority = Authority::new();
    let server = authority.plain_server();
    let moved = Authority::new();
    let file = moved.path("ca.pem");
    let backend = backend(&server.url("localhost", &moved.ca()));
    assert_eq!(attempt_fails(&backend, &claim("job")).await.0, ErrorKind::Misconfigured);
    std::fs::copy(authority.path("ca.pem"), file).unwrap();
    hold(&backend, &claim("job")).await;
}

/// As while it is replaced: an outage, which passes, and no mistake of the caller.
#[tokio::test]
async fn file_that_cannot_be_read_for_the_next_connection_is_an_outage() {
    let authority = Authority::new();
    let server = authority.plain_server();
    let backend = backend(&server.url("localhost", &authority.ca()));
    let (file, whole) = (authority.path("ca.pem"), std::fs::read(authority.path("ca.pem")).unwrap());
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let (kind, told) = attempt_fails(&backend, &claim("job")).await;
    assert!(kind == ErrorKind::Unavailable && told.contains("ca.pem"), "{kind:?} {told}");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(attempt_fails(&backend, &claim("job")).await.0, ErrorKind::Unavailable);
    std::fs::write(&file, &whole).unwrap();
    hold(&backend, &claim("job")).await;
}

#[tokio::test]
async fn tls_connection_to_a_plain_port_ends_in_time() {
    // A server that waits for the end of a line which does not come,
    let server = server();
    let silent = format!("rediss://127.0.0.1:{}?{QUICK}&tls_insecure=yes", server.port());
    let (kind, told) = refused(&silent).await;
    assert!(kind == ErrorKind::Unavailable && told.contains("TLS was not agreed on in time"), "{told}");
    assert!(told.contains("write redis://"), "{told}");

    // and one that answers in plain words.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let plain = format!("rediss://{}?{QUICK}&tls_insecure=yes", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"-ERR Protocol error: unbalanced quotes in request\r\n").await.unwrap();
        std::future::pending::<()>().await;
    });
    let (kind, told) = refused(&plain).await;
    assert!(
        kind == ErrorKind::Misconfigured && told.contains("what answers there does not speak TLS"),
        "{told}"
    );
    assert!(told.contains("write redis://"), "{told}");
}

#[tokio::test]
async fn plain_connection_to_a_tls_port_ends_in_time() {
    let authority = Authority::new();
    let server = authority.plain_server();
    let url = format!("redis://127.0.0.1:{}?{QUICK}", server.port);
    let (kind, told) = refused(&url).await;
    assert!(
        kind == ErrorKind::Unavailable && told.contains("it accepted a connection and closed it"),
        "{told}"
    );
    assert!(told.contains("write rediss://"), "{told}");
}

/// The URL names the Sentinel `localhost`, and the Sentinel names the primary 127.0.0.1.
#[tokio::test]
async fn sentinel_and_primary_are_each_checked_by_their_certificates() {
    let authority = Authority::new();
    authority.certify("localhost", &["localhost"]).unwrap();
    authority.certify("127.0.0.1", &["127.0.0.1"]).unwrap();
    let known = format!("{}&{}", authority.ca(), authority.identity("localhost"));
    let refused_for = [
        ("localhost", "127.0.0.1", None),
        ("127.0.0.1", "127.0.0.1", Some(("Sentinel at localhost:", "localhost"))),
        ("localhost", "localhost", Some(("Redis at 127.0.0.1:", "127.0.0.1"))),
    ];
    for (of_sentinel, of_primary, refused_for) in refused_for {
        let (primary, port) = (authority.server(of_primary, "yes"), free_port().unwrap());
        let settings = authority.settings(of_sentinel, "yes");
        let settings: String =
            settings.iter().map(|(setting, value)| format!("{setting} {value}\n")).collect();
        let _sentinel = Sentinel::start_with(format!(
            "{settings}tls-port {port}\ntls-replication yes\nsentinel monitor mm 127.0.0.1 {} 1\n",
            primary.port
        ));
        let url = format!("rediss+sentinel://localhost:{port}/mm?{known}");
        let Some((place, host)) = refused_for else {
            let (holding, waiting) = (backend(&url), backend(&url));
            let (holder, next) = (claim("job"), waiter("job"));
            hold(&holding, &holder).await;
            queue(&waiting, &next).await;
            release(&holding, &holder).await;
            answered(waiting.changed(&next)).await;
            hold(&waiting, &next).await;
            continue;
        };
        let (kind, told) = attempt_fails(&backend(&url), &claim("job")).await;
        assert_eq!(kind, ErrorKind::Misconfigured, "{told}");
        let problem = format!("not valid for name \"{host}\"");
        assert!(told.contains(place) && told.contains(&problem), "{told}");
    }
}

/// The URL names one node `localhost`, and the cluster names all of them 127.0.0.1.
#[tokio::test]
async fn each_node_of_a_cluster_is_checked_by_its_certificate() {
    let authority = Authority::new();
    authority.certify("server", &["127.0.0.1", "localhost"]).unwrap();
    authority.certify("elsewhere", &["localhost"]).unwrap();
    let cluster = RedisCluster::start_with_tls(&authority.settings("server", "yes")).unwrap();
    let known = format!("{}&{}", authority.ca(), authority.identity("server"));
    let url = format!("rediss+cluster://localhost:{}?{known}", cluster.tls_ports()[0]);
    let (holding, waiting) = (backend(&url), backend(&url));
    let claims: Vec<Claim> = (0..12).map(|number| claim(&format!("job/{number}"))).collect();
    for holder in &claims {
        hold(&holding, holder).await;
    }
    let node = |claim: &Claim| cluster.owner_of(&keys(claim.name().as_str()).lock).unwrap();
    assert_eq!(claims.iter().map(node).collect::<BTreeSet<_>>(), [0, 1, 2].into());
    let next = waiter("job/0");
    queue(&waiting, &next).await;
    release(&holding, &claims[0]).await;
    answered(waiting.changed(&next)).await;
    hold(&waiting, &next).await;

    let settings = authority.settings("elsewhere", "yes");
    let settings = settings[..2].iter().flat_map(|(setting, value)| [*setting, value.as_str()]);
    let change: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(settings).collect();
    assert_eq!(cluster.nodes()[2].command(&change).unwrap(), "+OK");
    let fresh = backend(&url);
    for holder in &claims[1..] {
        match renew(&fresh, holder).await {
            Ok(renewal) => assert_eq!((renewal, node(holder) == 2), (Renewal::Renewed, false)),
            Err(error) => {
                assert_eq!((error.kind(), node(holder)), (ErrorKind::Misconfigured, 2), "{}", told(&error));
            }
        }
    }
}

#[test]
fn files_that_will_not_do_are_named_when_the_store_is_opened() {
    let authority = Authority::new();
    authority.certify("a", &["a"]).unwrap();
    authority.certify("b", &["b"]).unwrap();
    let text = authority.path("text");
    std::fs::write(&text, "no certificate").unwrap();
    let path = |file: &str| authority.path(file).display().to_string();
    let cases = [
        ("tls_ca=/nowhere/ca.pem".to_owned(), "invalid tls_ca: /nowhere/ca.pem"),
        (format!("tls_ca={}", text.display()), "invalid tls_ca"),
        (format!("tls_cert={}", path("a.pem")), "invalid tls_key: tls_cert is given without it"),
        (format!("tls_key={}", path("a.key")), "invalid tls_cert: tls_key is given without it"),
        (
            format!("tls_cert={}&tls_key={}&{}", path("a.pem"), path("a.pem"), authority.ca()),
            "invalid tls_key",
        ),
        (
            format!("tls_cert={}&tls_key={}&{}", path("a.pem"), path("b.key"), authority.ca()),
            "invalid tls_key: it does not fit",
        ),
        (
            format!("{}&tls_insecure=yes", authority.ca()),
            "invalid tls_insecure: with it, tls_ca is not looked at",
        ),
        ("tls_insecure=maybe".to_owned(), "invalid tls_insecure: \"maybe\""),
    ];
    for (query, expected) in cases {
        let error = with_prefix(&format!("rediss://localhost?{query}"), "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{query}: {error}");
        assert!(error.to_string().starts_with(expected), "{query}: {error}");
        assert!(error.help().is_some(), "{query}");
    }
}
