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
use std::collections::HashMap;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a ZooKeeper server may take to answer a four-letter word, and a member of etcd a request of HTTP.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A question, and how lines with commands and bytes begin in its answer. ZooKeeper's commands are packets, with pings; it counts no bytes.
const SRVR: [&str; 3] = ["srvr", "Received: ", "no bytes"];
const METRICS: [&str; 3] =
    ["GET /metrics HTTP/1.0\r\n\r\n", "grpc_server_msg_received", "etcd_network_client_"];

/// A server, or what tells of it.
pub(crate) enum Server {
    Redis(MultiplexedConnection),
    MySql(AnyConnection),
    /// PostgreSQL or SQLite, which count nothing for everybody to read.
    OtherSql(AnyConnection, &'static str),
    /// `host:port` of each.
    ZooKeeper(Vec<String>),
    Etcd(Vec<String>),
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
            "zk" => Self::ZooKeeper(addresses(config, 2181)?),
            "etcd" => Self::Etcd(addresses(config, 2379)?),
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
                let told = answers(servers, "srvr").await.unwrap_or_default();
                // `3.8.0-5a02b05eddb59f6ac762f7ea82e92a68eb9c0f99, built on 2022-02-25 08:49 UTC`
                let version = told.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
                version.and_then(|version| Some(format!("zookeeper {}", version.split('-').next()?)))
            }
            Self::Etcd(members) => {
                let told = answers(members, "GET /version HTTP/1.0\r\n\r\n").await.unwrap_or_default();
                told.split('"').nth(3).map(|version| format!("etcd {version}"))
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
            Self::ZooKeeper(servers) => Ok(counted(servers, SRVR).await),
            Self::Etcd(members) => Ok(counted(members, METRICS).await),
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

/// The answers of all servers to a question in clear text, one after the other; `None` if one of them gives none.
async fn answers(servers: &[String], question: &str) -> Option<String> {
    let mut all = String::new();
    for server in servers {
        let asked = async {
            let mut stream = TcpStream::connect(server).await?;
            stream.write_all(question.as_bytes()).await?;
            stream.read_to_string(&mut all).await
        };
        timeout(ANSWER_TIMEOUT, asked).await.ok()?.ok()?;
    }
    Some(all)
}

async fn counted(servers: &[String], [question, commands, bytes]: [&str; 3]) -> Option<ServerCounters> {
    let told = answers(servers, question).await.filter(|told| told.contains(commands))?;
    Some(ServerCounters { commands: sum(&told, commands), bytes: sum(&told, bytes) })
}

/// The sum of the numbers at the ends of the lines that begin with this.
fn sum(metrics: &str, name: &str) -> u64 {
    let values = metrics.lines().filter(|line| line.starts_with(name));
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
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

fn addresses(config: &Config, port: u16) -> Result<Vec<String>> {
    Ok(config.url().authority()?.endpoints.iter().map(|server| address(server, port)).collect())
}

fn address(server: &Endpoint, port: u16) -> String {
    let mut server = server.clone();
    server.port.get_or_insert(port);
    server.to_string()
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unavailable, "the server did not tell its version and counters").with_source(error)
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
        let metrics = "# HELP grpc_x\ngrpc_x{a=\"b\"} 3\ngrpc_x{a=\"c\"} 1.2e+03\ngrpc_y 7\n";
        assert_eq!(sum(metrics, "grpc_x"), 1203);
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
