//! Servers that have a certificate, and one user for everything.

use leasehold_core::{Attempt, Claim, Error, LockBackend, LockName, Namespace, OwnerId, Result};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::{CertificateAuthority, MariaDbServer, PostgresServer};
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

pub(crate) enum Server {
    MariaDb(MariaDbServer),
    Postgres(PostgresServer),
}

/// A server of each kind, with certificates by this authority for these names.
pub(crate) async fn both(authority: &CertificateAuthority, names: &[&str]) -> [Server; 2] {
    authority.certify("server", names).unwrap();
    let place = |file: &str| authority.path(file).display().to_string();
    let (certificate, key, ca) = (place("server.pem"), place("server.key"), place("ca.pem"));
    for_the_server(&authority.path("server.key"));
    let mariadb = [format!("--ssl-cert={certificate}"), format!("--ssl-key={key}"), format!("--ssl-ca={ca}")];
    let postgres = [
        "-cssl=on".to_owned(),
        format!("-cssl_cert_file={certificate}"),
        format!("-cssl_key_file={key}"),
        format!("-cssl_ca_file={ca}"),
    ];
    servers(&mariadb, &postgres).await
}

/// A server of each kind, without TLS.
pub(crate) async fn both_plain() -> [Server; 2] {
    servers(&["--skip-ssl".to_owned()], &[]).await
}

async fn servers(mariadb: &[String], postgres: &[String]) -> [Server; 2] {
    let [mariadb, postgres] =
        [mariadb, postgres].map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
    let both = [
        Server::MariaDb(MariaDbServer::start_with(&mariadb, &[]).unwrap()),
        Server::Postgres(PostgresServer::start_with(&postgres, &[]).unwrap()),
    ];
    for server in &both {
        server.furnish().await;
    }
    both
}

/// PostgreSQL reads no key that others may read, and where tests are run by root it is another user.
fn for_the_server(key: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(key, PermissionsExt::from_mode(0o600)).unwrap();
    if rustix::process::getuid().is_root() {
        std::fs::set_permissions(key.parent().unwrap(), PermissionsExt::from_mode(0o711)).unwrap();
        assert!(Command::new("chown").arg("postgres").arg(key).status().unwrap().success());
    }
}

impl Server {
    pub(crate) fn url(&self, host: &str, query: &str) -> String {
        let login = format!("locker:sesame@{host}");
        match self {
            Self::MariaDb(server) => format!("mariadb://{login}:{}/locks?{QUICK}{query}", server.port()),
            Self::Postgres(server) => format!("postgres://{login}:{}/postgres?{QUICK}{query}", server.port()),
        }
    }

    /// The table, and a user who may use it.
    async fn furnish(&self) {
        let statements = match self {
            Self::MariaDb(_) => [
                "CREATE USER locker@'127.0.0.1' IDENTIFIED BY 'sesame'",
                "GRANT SELECT, INSERT, UPDATE, CREATE ON locks.* TO locker@'127.0.0.1'",
            ],
            Self::Postgres(_) => {
                ["CREATE ROLE locker LOGIN PASSWORD 'sesame'", "GRANT CREATE ON SCHEMA public TO locker"]
            }
        };
        for statement in statements {
            self.run(statement).await;
        }
        let backend = open(&self.url("127.0.0.1", "&sslmode=disable")).unwrap();
        backend.admin().unwrap().init().await.unwrap();
        backend.close().await.unwrap();
    }

    /// From now on the user must show a certificate.
    pub(crate) async fn know_clients(&self) {
        match self {
            Self::MariaDb(_) => self.run("ALTER USER locker@'127.0.0.1' REQUIRE X509").await,
            Self::Postgres(server) => {
                let rules = "hostssl all locker 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n\
                             host all postgres 127.0.0.1/32 trust\n";
                std::fs::write(server.data().join("db/pg_hba.conf"), rules).unwrap();
                self.run("SELECT pg_reload_conf()").await;
            }
        }
    }

    /// From now on nobody may talk in the clear.
    pub(crate) async fn refuse_plain(&self) {
        match self {
            Self::MariaDb(_) => self.run("SET GLOBAL require_secure_transport = ON").await,
            Self::Postgres(server) => {
                let rules = "hostssl all locker 127.0.0.1/32 scram-sha-256\n\
                             host all postgres 127.0.0.1/32 trust\n";
                std::fs::write(server.data().join("db/pg_hba.conf"), rules).unwrap();
                self.run("SELECT pg_reload_conf()").await;
            }
        }
    }

    async fn run(&self, statement: &'static str) {
        let statement = AssertSqlSafe(statement);
        match self {
            Self::MariaDb(server) => {
                let options = MySqlConnectOptions::new().host("127.0.0.1").port(server.port());
                let options = options.username("root").ssl_mode(MySqlSslMode::Disabled);
                options.connect().await.unwrap().execute(statement).await.unwrap();
            }
            Self::Postgres(server) => {
                let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(server.port());
                let options = options.username("postgres").database("postgres").ssl_mode(PgSslMode::Disable);
                options.connect().await.unwrap().execute(statement).await.unwrap();
            }
        }
    }

    /// True if a session of `locker` is encrypted, and all of them are.
    pub(crate) async fn is_encrypted(&self) -> bool {
        use sqlx::Row;
        match self {
            Self::MariaDb(server) => {
                let options = MySqlConnectOptions::new().host("127.0.0.1").port(server.port());
                let options = options.username("root").ssl_mode(MySqlSslMode::Disabled);
                let mut root = options.connect().await.unwrap();
                // This server has nothing that tells it of the sessions of others: it counts those that were.
                let row = root.fetch_one("SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'").await.unwrap();
                row.get::<String, _>(1) != "0"
            }
            Self::Postgres(server) => {
                let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(server.port());
                let options = options.username("postgres").database("postgres").ssl_mode(PgSslMode::Disable);
                let mut postgres = options.connect().await.unwrap();
                let all = "SELECT COALESCE(bool_and(s.ssl), false) FROM pg_stat_ssl AS s \
                           JOIN pg_stat_activity AS a USING (pid) WHERE a.usename = 'locker'";
                postgres.fetch_one(all).await.unwrap().get(0)
            }
        }
    }
}

/// Short time-outs, for what is to fail.
const QUICK: &str = "connect_timeout=3s&timeout=3s";

pub(crate) fn open(url: &str) -> Result<Arc<dyn LockBackend>> {
    leasehold_sql::open(&StoreUrl::parse(url)?, &Namespace::default())
}

/// The query that trusts this authority.
pub(crate) fn trusting(authority: &CertificateAuthority) -> String {
    format!("&sslrootcert={}", authority.path("ca.pem").display())
}

/// The query that shows a certificate.
pub(crate) fn showing(authority: &CertificateAuthority, file: &str) -> String {
    let path = |end| authority.path(&format!("{file}.{end}")).display().to_string();
    format!("&sslcert={}&sslkey={}", path("pem"), path("key"))
}

/// Takes a lock and gives it back.
pub(crate) async fn hold(url: &str) -> Arc<dyn LockBackend> {
    let (backend, claim) = (open(url).unwrap(), claim());
    assert!(matches!(backend.try_acquire(&claim).await.unwrap(), Attempt::Granted(_)));
    backend.release(&claim, Duration::ZERO).await.unwrap();
    backend
}

/// What the first use of this URL says.
pub(crate) async fn refused(url: &str) -> Error {
    open(url).unwrap().try_acquire(&claim()).await.unwrap_err()
}

fn claim() -> Claim {
    let name = LockName::new("job").unwrap();
    Claim::new(name, OwnerId::random().unwrap(), Duration::from_secs(30), "{}".into())
}
