//! ZooKeeper, by two requests of the crate `zookeeper-client`. Without a user.

use super::{ServerCounters, Yardstick, broken, stored_name, unexpected};
use async_trait::async_trait;
use leasehold::backend::Endpoint;
use leasehold::{Config, LockName, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error as ZkError};

/// How long a server may take to answer a four-letter word.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct RawZooKeeper {
    config: Config,
    /// The directory of the locks.
    base: String,
    /// `host:port` of each server.
    servers: Vec<String>,
    session: OnceCell<Client>,
}

impl RawZooKeeper {
    pub(super) fn new(config: &Config) -> Result<Self> {
        let authority = config.url().authority()?;
        let path = authority.path.trim_end_matches('/');
        let base = if path.is_empty() { "/leasehold".to_owned() } else { format!("/{path}") };
        let address = |server: &Endpoint| match server.host.contains(':') {
            true => format!("[{}]:{}", server.host, server.port.unwrap_or(2181)),
            false => format!("{}:{}", server.host, server.port.unwrap_or(2181)),
        };
        let servers = authority.endpoints.iter().map(address).collect();
        Ok(Self { config: config.clone(), base, servers, session: OnceCell::new() })
    }

    async fn session(&self) -> Result<&Client> {
        let connect = async || Client::connect(&self.servers.join(",")).await.map_err(broken);
        self.session.get_or_try_init(connect).await
    }

    /// The directory of a lock. A name for measuring has no other character that the backend encodes.
    fn directory_of(&self, name: &LockName) -> String {
        let segment = stored_name(&self.config, name).replace('%', "%25").replace('/', "%2F");
        format!("{}/{segment}", self.base)
    }

    /// The answers of all servers to `srvr`; `None` if one of them gives none.
    async fn facts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        let mut all = Vec::new();
        for server in &self.servers {
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
}

#[async_trait]
impl Yardstick for RawZooKeeper {
    async fn server(&self) -> Result<String> {
        let facts = self.facts().await;
        let version = facts.iter().flatten().find_map(|facts| facts.get("Zookeeper version"));
        // `3.8.0-5a02b05eddb59f6ac762f7ea82e92a68eb9c0f99, built on 2022-02-25 08:49 UTC`
        let version = version.and_then(|version| version.split('-').next());
        Ok(format!("zookeeper {}", version.unwrap_or("of unknown version")))
    }

    /// Creates a node and lists its directory, both sent at once; then deletes it.
    async fn pair(&self, name: &LockName) -> Result<()> {
        let (client, directory) = (self.session().await?, self.directory_of(name));
        let (path, options) = (format!("{directory}/raw-"), ephemeral());
        let (created, listed) = loop {
            match tokio::join!(client.create(&path, b"", &options), client.list_children(&directory)) {
                // The first time; and when the server has deleted a directory that was empty when it looked.
                (Err(ZkError::NoNode), _) => match client.create(&directory, b"", &container()).await {
                    Ok(_) | Err(ZkError::NodeExists) => {}
                    Err(error) => return Err(broken(error)),
                },
                answers => break answers,
            }
        };
        let ((_, sequence), children) = (created.map_err(broken)?, listed.map_err(broken)?);
        client.delete(&format!("{path}{sequence}"), None).await.map_err(broken)?;
        if children.len() == 1 { Ok(()) } else { Err(unexpected("a name for measuring is in use")) }
    }

    /// Packets of requests, pings among them. Bytes are not counted.
    async fn counters(&self) -> Result<Option<ServerCounters>> {
        let received = |facts: &BTreeMap<String, String>| facts.get("Received")?.parse::<u64>().ok();
        let Some(facts) = self.facts().await else { return Ok(None) };
        let commands: Option<u64> = facts.iter().map(received).sum();
        Ok(commands.map(|commands| ServerCounters { commands, bytes: 0 }))
    }
}

fn container() -> CreateOptions<'static> {
    CreateMode::Container.with_acls(Acls::anyone_all())
}

fn ephemeral() -> CreateOptions<'static> {
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all())
}

impl fmt::Debug for RawZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawZooKeeper").field("servers", &self.servers).finish_non_exhaustive()
    }
}
