use crate::kit::{both, both_plain, hold, open, refused, showing, trusting};
use leasehold_core::{Error, ErrorKind};
use leasehold_test_stores::servers::CertificateAuthority;

fn authority() -> CertificateAuthority {
    CertificateAuthority::new().unwrap()
}

/// Asserts the kind, the message and the help of an error.
#[track_caller]
fn says(error: &Error, kind: ErrorKind, message: &str, help: &str) {
    let told = format!("{error} / {:?}", error.help());
    assert_eq!(error.kind(), kind, "{told}");
    assert!(error.to_string().contains(message), "{told}");
    assert!(error.help().is_some_and(|text| text.contains(help)), "{told}");
    assert!(!format!("{error:?}").contains("sesame"), "{error:?}");
}

#[tokio::test]
async fn connection_to_a_trusted_server_is_encrypted() {
    let authority = authority();
    for server in both(&authority, &["localhost", "127.0.0.1"]).await {
        for host in ["localhost", "127.0.0.1"] {
            let backend =
                hold(&server.url(host, &format!("&sslmode=verify-full{}", trusting(&authority)))).await;
            assert!(server.is_encrypted().await);
            backend.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn certificate_of_an_unknown_authority_is_refused_with_the_way_out() {
    for server in both(&authority(), &["localhost"]).await {
        for mode in ["verify-full", "verify-ca"] {
            for trusted in ["".to_owned(), trusting(&authority())] {
                let error = refused(&server.url("localhost", &format!("&sslmode={mode}{trusted}"))).await;
                says(&error, ErrorKind::Misconfigured, "is not trusted", "sslrootcert=");
            }
        }
    }
}

#[tokio::test]
async fn certificate_for_another_host_is_refused_unless_any_name_will_do() {
    let authority = authority();
    for server in both(&authority, &["db.example"]).await {
        let full = server.url("localhost", &format!("&sslmode=verify-full{}", trusting(&authority)));
        let error = refused(&full).await;
        says(&error, ErrorKind::Misconfigured, "not valid for name", "sslmode=verify-ca");
        let backend = hold(&full.replace("verify-full", "verify-ca")).await;
        assert!(server.is_encrypted().await);
        backend.close().await.unwrap();
    }
}

#[tokio::test]
async fn unverified_server_is_accepted_only_on_request_and_encrypted() {
    for server in both(&authority(), &["db.example"]).await {
        let backend = hold(&server.url("localhost", "&sslmode=require")).await;
        assert!(server.is_encrypted().await);
        backend.close().await.unwrap();
    }
}

/// No silent fall-back: `prefer` of others goes on in the clear here.
#[tokio::test]
async fn server_without_tls_is_refused_if_tls_is_asked_for() {
    for server in both_plain().await {
        for mode in ["require", "verify-ca", "verify-full"] {
            let error = refused(&server.url("localhost", &format!("&sslmode={mode}"))).await;
            says(&error, ErrorKind::Misconfigured, "does not speak TLS", "sslmode=disable");
            assert!(error.to_string().contains(mode), "{error}");
        }
        hold(&server.url("localhost", "&sslmode=disable")).await;
        hold(&server.url("localhost", "")).await;
    }
}

#[tokio::test]
async fn plain_connection_to_a_server_that_wants_tls_is_refused() {
    let authority = authority();
    for server in both(&authority, &["localhost"]).await {
        server.refuse_plain().await;
        let error = refused(&server.url("localhost", "")).await;
        assert!(matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::Denied), "{error}");
        assert!(error.help().is_some_and(|help| help.contains("sslmode=verify-full")), "{error:?}");
        hold(&server.url("localhost", &format!("&sslmode=verify-full{}", trusting(&authority)))).await;
    }
}

#[tokio::test]
async fn server_that_asks_for_a_client_certificate_is_shown_one() {
    let authority = authority();
    let stranger = CertificateAuthority::new().unwrap();
    authority.certify("client", &["locker"]).unwrap();
    stranger.certify("client", &["locker"]).unwrap();
    for server in both(&authority, &["localhost"]).await {
        server.know_clients().await;
        let known = format!("&sslmode=verify-full{}", trusting(&authority));
        hold(&server.url("localhost", &format!("{known}{}", showing(&authority, "client")))).await;
        for identity in [String::new(), showing(&stranger, "client")] {
            let error = refused(&server.url("localhost", &format!("{known}{identity}"))).await;
            says(&error, ErrorKind::Denied, "refuse", "sslcert");
        }
    }
}

#[test]
fn unusable_file_is_refused_by_name_when_the_store_is_opened() {
    let authority = authority();
    authority.certify("a", &["a"]).unwrap();
    authority.certify("b", &["b"]).unwrap();
    std::fs::write(authority.path("text"), "no certificate").unwrap();
    let path = |file: &str| authority.path(file).display().to_string();
    let cases = [
        ("sslrootcert=/nowhere/ca.pem".to_owned(), "invalid sslrootcert: /nowhere/ca.pem"),
        (format!("sslrootcert={}", path("text")), "invalid sslrootcert"),
        (format!("sslcert={}", path("a.pem")), "invalid sslkey: sslcert is given without it"),
        (format!("sslkey={}", path("a.key")), "invalid sslcert: sslkey is given without it"),
        (format!("sslcert={}&sslkey={}", path("text"), path("a.key")), "invalid sslcert"),
        (format!("sslcert={}&sslkey={}", path("a.pem"), path("a.pem")), "invalid sslkey"),
        (format!("sslcert={}&sslkey={}", path("a.pem"), path("b.key")), "invalid sslkey: it does not fit"),
        (format!("sslmode=require&sslrootcert={}", path("ca.pem")), "invalid sslmode: with it"),
        ("sslmode=prefer".to_owned(), "invalid sslmode: \"prefer\""),
    ];
    for scheme in ["mysql", "postgres"] {
        for (query, expected) in &cases {
            let error = open(&format!("{scheme}://a@db.example/b?{query}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{query}: {error}");
            assert!(error.to_string().starts_with(expected), "{query}: {error}");
            assert!(error.help().is_some(), "{query}");
        }
    }
}
