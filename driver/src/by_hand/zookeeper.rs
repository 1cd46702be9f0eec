//! ZooKeeper, by two requests of the crate `zookeeper-client`. Without a user.

use super::{ByHand, broken, stored_name, unexpected};
use async_trait::async_trait;
use leasehold::backend::Endpoint;
use leasehold::{Config, LockName, Result};
use tokio::sync::OnceCell;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error as ZkError};

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
}

#[async_trait]
impl ByHand for RawZooKeeper {
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
}

fn container() -> CreateOptions<'static> {
    CreateMode::Container.with_acls(Acls::anyone_all())
}

fn ephemeral() -> CreateOptions<'static> {
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all())
}
