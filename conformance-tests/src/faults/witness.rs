//! A client that has connections to the store, and sees whether the store ends them.

use super::scaled;
use crate::case::Stop;
use crate::context::{Client, optional};
use crate::proxy::Proxy;
use crate::subject::{Store, Subject};
use leasehold_core::{AcquireOptions, DistributedLockExt, LockName};
use std::time::{Duration, Instant};

/// A client behind a proxy that has used the store, and does no more.
pub(crate) struct Witness {
    proxy: Proxy,
    before: u64,
    _client: Client,
}

/// Longer than it takes a server that has just been started to serve.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

impl Witness {
    /// Connects, and uses a lock that nobody else wants meanwhile. `None` where there is no network between.
    pub(crate) async fn of(
        subject: &dyn Subject,
        store: &dyn Store,
        name: &LockName,
    ) -> Result<Option<Self>, Stop> {
        let Some((proxy, address)) = optional(store.proxied(PATIENCE).await)? else { return Ok(None) };
        let client = subject.connect(&address).await?;
        let start = Instant::now();
        loop {
            let options = AcquireOptions::new().with_wait(PATIENCE);
            let used = async { client.acquire_with(name, &options).await?.release().await };
            match used.await {
                // A server that was started anew may take its time.
                Err(_) if start.elapsed() < scaled(PATIENCE) => tokio::time::sleep(PAUSE).await,
                used => break used?,
            }
        }
        Ok(Some(Self { before: proxy.ended_by_servers(), proxy, _client: client }))
    }

    /// How many connections the store has ended since.
    pub(crate) fn ended(&self) -> u64 {
        self.proxy.ended_by_servers() - self.before
    }
}
