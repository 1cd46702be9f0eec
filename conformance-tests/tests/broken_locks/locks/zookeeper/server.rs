use super::recipe::queue_of;
use async_trait::async_trait;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::servers::ZooKeeperServer;
use leasehold_conformance::{Cannot, Counters, Store};
use leasehold_core::LockName;
use std::time::Duration;
use zookeeper_client::Client;

#[derive(Debug)]
struct Server(ZooKeeperServer);

/// A server of its own, for one case.
pub(crate) fn start() -> Result<Box<dyn Store>, Cannot> {
    Ok(Box::new(Server(ZooKeeperServer::start().map_err(cannot)?)))
}

#[async_trait]
impl Store for Server {
    fn address(&self) -> String {
        format!("127.0.0.1:{} 5000", self.0.port())
    }

    fn address_for_holds_of(&self, time: Duration) -> String {
        format!("{}  {}", self.address(), time.as_millis())
    }

    async fn proxied(&self, patience: Duration) -> Result<(Proxy, String), Cannot> {
        let proxy = Proxy::to(([127, 0, 0, 1], self.0.port()).into()).await.map_err(cannot)?;
        let address = format!("{} {}", proxy.address(), patience.as_millis());
        Ok((proxy, address))
    }

    async fn delete_queue(&self, name: &LockName) -> Result<(), Cannot> {
        let client = Client::connect(&format!("127.0.0.1:{}", self.0.port())).await.map_err(cannot)?;
        let (queue, mut deletion) = (queue_of(name), client.new_multi_writer());
        for place in client.list_children(&queue).await.map_err(cannot)? {
            deletion.add_delete(&format!("{queue}/{place}"), None).map_err(cannot)?;
        }
        deletion.add_delete(&queue, None).map_err(cannot)?;
        deletion.commit().await.map(drop).map_err(cannot)
    }

    async fn counters(&self) -> Result<Counters, Cannot> {
        self.0.traffic().map_err(cannot)
    }
}

/// A case that fails for this would pass for one that has caught the lock: it is one that did not run.
fn cannot(error: impl std::fmt::Display) -> Cannot {
    Cannot::new(error.to_string())
}
