use super::*;

fn target(url: &str) -> Result<Target> {
    Target::from_url(&StoreUrl::parse(url).unwrap(), "postgres", 5432)
}

fn problem(url: &str) -> String {
    target(url).unwrap_err().to_string()
}

#[test]
fn short_url_has_defaults() {
    let target = target("postgres://ada@localhost/shop").unwrap();
    assert_eq!((target.port, target.mode, target.connections), (5432, Mode::Lease, CONNECTIONS));
    assert_eq!(target.encryption.mode, SslMode::Disable);
    assert_eq!(target.table.as_str(), "leasehold");
    assert_eq!(target.address(), "postgres at localhost:5432");
}

#[test]
fn mode_of_the_url_has_a_table_of_its_own() {
    let with = |mode| target(&format!("postgres://ada@localhost/shop?mode={mode}")).unwrap();
    assert_eq!(with("for-update").mode, Mode::ForUpdate);
    assert_eq!(with("for-update").table.as_str(), "leasehold_held");
    assert_eq!(with("optimistic").table.as_str(), "leasehold");
    assert!(target("postgres://ada@localhost/shop?mode=advisory").is_err());
}

#[test]
fn impossible_target_is_refused_with_the_way_out() {
    assert_eq!(problem("postgres://localhost/shop"), "invalid store URL: it names no user");
    assert_eq!(problem("postgres://ada@localhost"), "invalid store URL: it names no database");
    assert_eq!(
        problem("postgres://ada@localhost/a/b"),
        "invalid store URL: its database \"a/b\" has a slash"
    );
    assert_eq!(problem("postgres://a@localhost/b?timeout=1ms"), "invalid timeout: 1ms, at least 10ms");
    assert_eq!(problem("postgres://a@localhost/b?timeout=1h"), "invalid timeout: 3600s, at most 60s");
    assert_eq!(problem("postgres://a@localhost/b?connections=0"), "invalid connections: \"0\"");
    assert_eq!(problem("postgres://a@localhost/b?table=x;y"), "invalid table: \"x;y\"");
    assert_eq!(problem("postgres://a@localhost/b?socket=x"), "invalid socket: \"x\" is not absolute");
    assert!(problem("postgres://a@localhost/b?tabel=x").contains("unknown parameter \"tabel\""));
    let long = format!("postgres://a@localhost/b?table={}", "x".repeat(59));
    assert!(problem(&long).starts_with("invalid table"));
}

#[cfg(feature = "tls")]
#[test]
fn other_host_is_verified_unless_the_url_says_otherwise() {
    let mode = |url: &str| target(url).unwrap().encryption.mode;
    let verified = Encryption { mode: SslMode::VerifyFull, root: None, identity: None };
    assert_eq!(target("postgres://a@db.int/b").unwrap().encryption, verified);
    assert_eq!(mode("postgres://a@db.int/b?sslmode=disable"), SslMode::Disable);
    assert_eq!(mode("postgres://a@db.int/b?sslmode=require"), SslMode::Require);
    assert_eq!(mode("postgres://a@127.0.0.1/b?sslmode=verify-ca"), SslMode::VerifyCa);
    assert!(problem("postgres://a@db.int/b?sslrootcert=/x").starts_with("invalid sslrootcert: /x: "));
    assert!(problem("postgres://a@db.int/b?sslmode=prefer").contains("prefer"));
    assert!(problem("postgres://a@db.int/b?sslcert=/x").starts_with("invalid sslkey"));
}

#[cfg(not(feature = "tls"))]
#[test]
fn other_host_without_tls_is_refused_by_default() {
    let error = target("postgres://a@db.int/b").unwrap_err();
    assert_eq!(error.kind(), leasehold_core::ErrorKind::Misconfigured);
    assert!(error.help().is_some_and(|help| help.contains("sslmode=disable")));
    assert!(target("postgres://a@db.int/b?sslmode=disable").is_ok());
}

#[test]
fn target_and_its_errors_show_no_secret() {
    let target = target("postgres://ada:S3CR3T@localhost/shop").unwrap();
    assert!(!format!("{target:?} {}", target.address()).contains("S3CR3T"));
    assert_eq!(problem("postgres://:S3CR3T@localhost/shop"), "invalid store URL: it names no user");
}
