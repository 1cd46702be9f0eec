//! The server behind a store, asked beside its locks: what it calls itself, and what it has counted. Requests go over TCP, unencrypted.

use leasehold::backend::Endpoint;
use leasehold::{Config, Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, InfoDict, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, Value,
};
use secrecy::ExposeSecret;
use sqlx::any::{AnyConnectOptions, install_default_drivers};
use sqlx::{AnyConnection, ConnectOptions, Row};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a ZooKeeper server may take to answer a four-letter word.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A server, or what tells of it.
pub(crate) enum Server {
    Redis(MultiplexedConnection),
    MySql(AnyConnection),
    /// PostgreSQL or SQLite, which count nothing for everybody to read.
    OtherSql(AnyConnection, &'static str),
    /// `host:port` of each.
    ZooKeeper(Vec<String>),
    /// A kind that cannot be asked, or a server behind TLS.
    Unknown,
}

/// The counters of a server since its start, for all its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerCounters {
    /// Commands or statements, those inside scripts included.
    pub(crate) commands: u64,
    /// Bytes received and sent; 0 if it does not count them.
    pub(crate) bytes: u64,
}

impl Server {
    pub(crate) async fn of(config: &Config) -> Result<Self> {
        let url = config.url();
        Ok(match url.scheme() {
            "redis" | "valkey" => Self::Redis(redis(config).await?),
            "mysql" | "mariadb" if is_in_the_clear(config) => Self::MySql(sql(config, "mysql", 3306).await?),
            "postgres" | "postgresql" if is_in_the_clear(config) => {
                Self::OtherSql(sql(config, "postgres", 5432).await?, "SELECT version()")
            }
            "sqlite" => Self::OtherSql(sqlite(&url.path()?).await?, "SELECT 'SQLite ' || sqlite_version()"),
            "zk" => {
                let address = |server: &Endpoint| address(server, 2181);
                Self::ZooKeeper(url.authority()?.endpoints.iter().map(address).collect())
            }
            _ => Self::Unknown,
        })
    }

    /// Its name and version; `None` if it does not tell.
    pub(crate) async fn version(&mut self) -> Result<Option<String>> {
        Ok(match self {
            Self::Redis(connection) => {
                let hello = redis::cmd("HELLO").query_async(connection).await;
                let fields: HashMap<String, Value> = hello.map_err(failed)?;
                let field = |name| redis::from_redis_value_ref::<String>(fields.get(name)?).ok();
                let [server, version] = ["server", "version"].map(|name| field(name).unwrap_or_default());
                Some(format!("{server} {version}"))
            }
            Self::MySql(connection) => Some(scalar(connection, "SELECT version()").await?),
            Self::OtherSql(connection, query) => Some(scalar(connection, query).await?),
            Self::ZooKeeper(servers) => {
                let facts = zookeeper_facts(servers).await;
                let version = facts.iter().flatten().find_map(|facts| facts.get("Zookeeper version"));
                // `3.8.0-5a02b05eddb59f6ac762f7ea82e92a68eb9c0f99, built on 2022-02-25 08:49 UTC`
                version.and_then(|version| Some(format!("zookeeper {}", version.split('-').next()?)))
            }
            Self::Unknown => None,
        })
    }

    /// `None` if it has none, or may not tell.
    pub(crate) async fn counters(&mut self) -> Result<Option<ServerCounters>> {
        match self {
            Self::Redis(connection) => match redis::cmd("INFO").arg("stats").query_async(connection).await {
                Ok(info) => Ok(redis_counters(&info)),
                Err(error) if error.code() == Some("NOPERM") => Ok(None),
                Err(error) => Err(failed(error)),
            },
            Self::MySql(connection) => mysql_counters(connection).await.map(Some).map_err(failed),
            Self::ZooKeeper(servers) => {
                // Packets of requests, pings among them.
                let received = |facts: &BTreeMap<String, String>| facts.get("Received")?.parse::<u64>().ok();
                let facts = zookeeper_facts(servers).await.unwrap_or_default();
                let commands: Option<u64> = facts.iter().map(received).sum();
                Ok(commands
                    .filter(|_| !facts.is_empty())
                    .map(|commands| ServerCounters { commands, bytes: 0 }))
            }
            Self::OtherSql(..) | Self::Unknown => Ok(None),
        }
    }
}

async fn redis(config: &Config) -> Result<MultiplexedConnection> {
    let authority = config.url().authority()?;
    let endpoint = authority.only_endpoint()?;
    let address = ConnectionAddr::Tcp(endpoint.host.clone(), endpoint.port.unwrap_or(6379));
    let mut settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    if let Some(user) = &authority.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &authority.password {
        settings = settings.set_password(password.read()?.expose_secret());
    }
    let info = address.into_connection_info().map_err(failed)?.set_redis_settings(settings);
    // A server that is as busy as its clients can make it answers late.
    let limits = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(info).map_err(failed)?;
    client.get_multiplexed_async_connection_with_config(&limits).await.map_err(failed)
}

fn redis_counters(info: &InfoDict) -> Option<ServerCounters> {
    let bytes = info.get::<u64>("total_net_input_bytes")? + info.get::<u64>("total_net_output_bytes")?;
    Some(ServerCounters { commands: info.get("total_commands_processed")?, bytes })
}

async fn sql(config: &Config, scheme: &str, port: u16) -> Result<AnyConnection> {
    let authority = config.url().authority()?;
    let mut options = connect_options(&format!("{scheme}://{}", address(authority.only_endpoint()?, port)))?;
    let url = &mut options.database_url;
    url.set_path(&authority.path);
    // A URL with a host takes both.
    let _ = url.set_username(authority.user.as_deref().unwrap_or_default());
    if let Some(password) = &authority.password {
        let _ = url.set_password(Some(password.read()?.expose_secret()));
    }
    options.disable_statement_logging().connect().await.map_err(failed)
}

async fn sqlite(path: &str) -> Result<AnyConnection> {
    let path = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    connect_options(&format!("sqlite:{path}"))?.connect().await.map_err(failed)
}

fn connect_options(url: &str) -> Result<AnyConnectOptions> {
    install_default_drivers();
    url.parse().map_err(|error: sqlx::Error| failed(error))
}

async fn scalar(connection: &mut AnyConnection, query: &'static str) -> Result<String> {
    sqlx::query_scalar(query).fetch_one(connection).await.map_err(failed)
}

async fn mysql_counters(connection: &mut AnyConnection) -> sqlx::Result<ServerCounters> {
    let status = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Bytes_received', 'Bytes_sent')";
    let mut counters = ServerCounters::default();
    for row in sqlx::query(status).fetch_all(connection).await? {
        let value = row.try_get::<String, _>(1)?.parse().unwrap_or(0);
        let is_commands = row.try_get::<String, _>(0)? == "Questions";
        if is_commands { counters.commands = value } else { counters.bytes += value }
    }
    Ok(counters)
}

/// The answers of all servers to `srvr`; `None` if one of them gives none.
async fn zookeeper_facts(servers: &[String]) -> Option<Vec<BTreeMap<String, String>>> {
    let mut all = Vec::new();
    for server in servers {
        let asked = async {
            let mut stream = TcpStream::connect(server).await.ok()?;
            stream.write_all(b"srvr").await.ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.ok()?;
            Some(answer)
        };
        let answer = timeout(ANSWER_TIMEOUT, asked).await.ok()??;
        let facts = answer.lines().filter_map(|line| line.split_once(": "));
        all.push(facts.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect());
    }
    Some(all)
}

/// True for a database that is reached over TCP and without TLS. On this host, a missing `sslmode` means no TLS.
fn is_in_the_clear(config: &Config) -> bool {
    let mut query = config.url().query();
    let authority = config.url().authority();
    let host = authority.ok().and_then(|all| all.only_endpoint().map(|endpoint| endpoint.host.clone()).ok());
    let is_this_host =
        host.is_some_and(|host| host == "localhost" || host.starts_with("127.") || host == "::1");
    let is_clear = query.take("sslmode").map_or(is_this_host, |mode| mode == "disable");
    is_clear && query.take("socket").is_none()
}

fn address(server: &Endpoint, port: u16) -> String {
    let port = server.port.unwrap_or(port);
    if server.host.contains(':') {
        format!("[{}]:{port}", server.host)
    } else {
        format!("{}:{port}", server.host)
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unavailable, "the server does not tell its version and counters").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_servers_own_words() {
        let info = "# Stats\r\ntotal_connections_received:3\r\ntotal_commands_processed:41\r\n\
                    total_net_input_bytes:100\r\ntotal_net_output_bytes:20\r\n";
        assert_eq!(redis_counters(&InfoDict::new(info)), Some(ServerCounters { commands: 41, bytes: 120 }));
        assert_eq!(redis_counters(&InfoDict::new("total_commands_processed:41")), None);
    }

    #[test]
    fn database_behind_tls_or_a_socket_is_not_asked() {
        let is_clear = |url| is_in_the_clear(&Config::new(url).unwrap());
        assert!(is_clear("mysql://u@localhost/db") && is_clear("postgres://u@db.example/db?sslmode=disable"));
        assert!(
            !is_clear("postgres://u@db.example/db") && !is_clear("mysql://u@localhost/db?sslmode=require")
        );
    }
}
