//! `caching_sha2_password`, MySQL's own way to ask for a password, which MariaDB has not got.

use crate::kit::{hold, open, refused};
use leasehold_core::ErrorKind;
use leasehold_test_stores::servers::MySqlServer;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

#[tokio::test]
async fn password_that_needs_tls_is_refused_with_the_way_out() {
    if std::env::var_os(MySqlServer::FOLDER).is_none() {
        eprintln!("skipped: {} names no MySQL", MySqlServer::FOLDER);
        return;
    }
    let server = MySqlServer::start().unwrap();
    let options = MySqlConnectOptions::new().host("127.0.0.1").port(server.port()).username("root");
    let mut root = options.ssl_mode(MySqlSslMode::Disabled).connect().await.unwrap();
    for statement in [
        "CREATE USER locker@'%' IDENTIFIED WITH caching_sha2_password BY 'sesame'",
        "GRANT SELECT, INSERT, UPDATE, CREATE ON locks.* TO locker@'%'",
    ] {
        root.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    let url = |query: &str| format!("mysql://locker:sesame@127.0.0.1:{}/locks?{query}", server.port());

    let error = refused(&url("")).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.to_string().contains("over TLS alone"), "{error}");
    assert!(error.help().is_some_and(|help| help.contains("sslmode=verify-full")), "{error:?}");
    assert!(!format!("{error:?}").contains("rsa"), "a feature is named that is not there: {error:?}");
    let socket = server.data().join("socket");
    let error = refused(&url(&format!("socket={}", socket.display()))).await;
    // The driver takes a socket for a wire; what it says there is, to the server, a wrong password.
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.help().is_some_and(|help| help.contains("sslmode=verify-full")), "{error:?}");

    let administrator = open(&url("sslmode=require")).unwrap();
    administrator.admin().unwrap().init().await.unwrap();
    hold(&url("sslmode=require")).await;
    // The server has the password in mind now, and asks for no more than a proof of it.
    hold(&url("")).await;
    hold(&url(&format!("socket={}", socket.display()))).await;
}
