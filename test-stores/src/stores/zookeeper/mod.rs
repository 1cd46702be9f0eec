mod admin;
mod administrator;
mod ensemble;

pub(crate) use ensemble::ZooKeeperEnsemble;

use super::kinds::KINDS;
use super::pool::{Pool, Pooled};
use super::{NOBODY, SECRET, cannot, connect, ensure_disk, timeouts};
use crate::servers::ZooKeeperServer;
use admin::Admin;
use async_trait::async_trait;
use leasehold::semantics::Fault;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Cannot, Counters, Kinds, ShimmedClock, Store, Subject};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Short, for the cases that wait for one to end; and longer than the pauses of a machine that runs too much at once.
const SESSION: &str = "session_timeout=2s";

/// One ZooKeeper server. A case has it to itself; it is used again for another case unless this one has harmed it,
/// because a virtual machine costs more to start than most cases cost to run.
#[derive(Debug, Default)]
pub(crate) struct ZooKeeper {
    pool: Arc<Pool<ZooKeeperServer>>,
}

#[derive(Debug)]
struct Node {
    server: Mutex<Pooled<ZooKeeperServer>>,
    /// The clock that the server runs by, if it is one of its own.
    clock: Mutex<Option<ShimmedClock>>,
    /// The directory of this case's locks: nothing in it is of another case.
    directory: String,
}

impl Node {
    fn server(&self) -> MutexGuard<'_, Pooled<ZooKeeperServer>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server, which no other case is to have after this one.
    fn harmed(&self) -> MutexGuard<'_, Pooled<ZooKeeperServer>> {
        let server = self.server();
        server.keep_from_others();
        server
    }

    fn port(&self) -> u16 {
        self.server().port()
    }

    async fn admin(&self) -> std::result::Result<Admin, Cannot> {
        Admin::connect(&format!("127.0.0.1:{}", self.port()), &self.directory).await
    }
}

#[async_trait]
impl Subject for ZooKeeper {
    fn name(&self) -> &str {
        "zookeeper"
    }

    fn kinds(&self) -> &dyn Kinds {
        &KINDS
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let start = || ZooKeeperServer::start().map(|server| self.pool.lend(server));
        let server = self.pool.take().map_or_else(start, Ok).map_err(cannot)?;
        Ok(Box::new(Node { server: Mutex::new(server), clock: Mutex::default(), directory: directory() }))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }

    fn can_meet(&self, fault: Fault) -> std::result::Result<(), Cannot> {
        match fault {
            Fault::FailOver | Fault::SplitBrain | Fault::MinorityDown => {
                Err(Cannot::new("it is one server: no other one could take over, and none can be spared"))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Node {
    fn address(&self) -> String {
        format!("zk://127.0.0.1:{}{}?{SESSION}", self.port(), self.directory)
    }

    /// Belief is three quarters of the session.
    fn address_for_holds_of(&self, time: Duration) -> String {
        format!("zk://127.0.0.1:{}{}?{}", self.port(), self.directory, session_for(time))
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let proxy = Proxy::to(([127, 0, 0, 1], self.port()).into()).await.map_err(cannot)?;
        let (server, directory, timeouts) = (proxy.address(), &self.directory, timeouts(patience));
        let address = format!("zk://{server}{directory}?{SESSION}&{timeouts}");
        Ok((proxy, address))
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        self.harmed().pause();
        Ok(())
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        self.harmed().resume();
        Ok(())
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        self.harmed().kill();
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        self.harmed().restart(keep_data).map_err(cannot)
    }

    async fn sync(&self) -> std::result::Result<(), Cannot> {
        ensure_disk()?;
        self.harmed().sync_to_own_disk().map_err(cannot)
    }

    async fn lose_power(&self) -> std::result::Result<(), Cannot> {
        self.harmed().lose_power().map_err(cannot)?;
        self.restart(true).await
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        self.admin().await?.delete_holder(name).await
    }

    async fn delete_queue(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        self.admin().await?.delete_queue(name).await
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        self.admin().await?.delete_all().await
    }

    /// The disk, and with it the count of transactions.
    async fn lose_data(&self) -> std::result::Result<(), Cannot> {
        self.restart(false).await
    }

    async fn records(&self) -> std::result::Result<usize, Cannot> {
        self.admin().await?.places().await
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Cannot> {
        Ok(self)
    }

    async fn counters(&self) -> std::result::Result<Counters, Cannot> {
        self.server().traffic().map_err(cannot)
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        Ok(format!("{} {prefix}", self.address()))
    }

    async fn aliases(&self) -> std::result::Result<Vec<String>, Cannot> {
        let (port, directory) = (self.port(), &self.directory);
        Ok(vec![
            format!("zk://localhost:{port}{directory}"),
            format!("zk://127.0.0.1:{port}{directory}/"),
            format!("zk://127.0.0.1:{port},127.0.0.1:{port}{directory}?timeout=1s"),
        ])
    }

    async fn secret(&self) -> std::result::Result<(String, String), Cannot> {
        let secret = SECRET.to_owned();
        Ok((format!("zk://locker:{secret}@127.0.0.1:{}{}?{SESSION}", self.port(), self.directory), secret))
    }
}

/// Belief is three quarters of a session.
fn session_for(time: Duration) -> String {
    format!("session_timeout={}ms", (time * 4 / 3).as_millis())
}

fn directory() -> String {
    format!("/case-{:08x}", fastrand::u32(..))
}
