use super::recipe::queue_of;
use crate::subject::cannot;
use async_trait::async_trait;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Counters, Stop, Store};
use leasehold_core::LockName;
use leasehold_test_stores::servers::ZooKeeperServer;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zookeeper_client::Client;

/// Servers that no case uses at the moment. A virtual machine costs more to start than a case to run, and the lock names of
/// each case are its own.
static IDLE: Mutex<Vec<ZooKeeperServer>> = Mutex::new(Vec::new());

/// A server that one case has to itself; `None` while it is dropped, and never before.
#[derive(Debug)]
struct Server(Option<ZooKeeperServer>);

pub(crate) fn start() -> Result<Box<dyn Store>, Stop> {
    let server = idle().pop();
    let server = server.map_or_else(ZooKeeperServer::start, Ok).map_err(cannot)?;
    Ok(Box::new(Server(Some(server))))
}

/// Ends the servers, and removes their data.
pub(crate) fn end_idle() {
    idle().clear();
}

fn idle() -> MutexGuard<'static, Vec<ZooKeeperServer>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    fn server(&self) -> &ZooKeeperServer {
        self.0.as_ref().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        idle().extend(self.0.take());
    }
}

#[async_trait]
impl Store for Server {
    fn address(&self) -> String {
        format!("127.0.0.1:{} 5000", self.server().port())
    }

    fn address_for_holds_of(&self, time: Duration) -> String {
        format!("{}  {}", self.address(), time.as_millis())
    }

    async fn proxied(&self, patience: Duration) -> Result<(Proxy, String), Stop> {
        let proxy = Proxy::to(([127, 0, 0, 1], self.server().port()).into()).await.map_err(cannot)?;
        let address = format!("{} {}", proxy.address(), patience.as_millis());
        Ok((proxy, address))
    }

    async fn delete_queue(&self, name: &LockName) -> Result<(), Stop> {
        let client = Client::connect(&format!("127.0.0.1:{}", self.server().port())).await.map_err(cannot)?;
        let (queue, mut deletion) = (queue_of(name), client.new_multi_writer());
        for place in client.list_children(&queue).await.map_err(cannot)? {
            deletion.add_delete(&format!("{queue}/{place}"), None).map_err(cannot)?;
        }
        deletion.add_delete(&queue, None).map_err(cannot)?;
        deletion.commit().await.map(drop).map_err(cannot)
    }

    async fn counters(&self) -> Result<Counters, Stop> {
        self.server().traffic().map_err(cannot)
    }
}
