//! A client that has connections to the store, and sees whether the store ends them.

use crate::expect::{Client, first_use, optional};
use crate::proxy::Proxy;
use crate::stop::Stop;
use crate::subject::{Store, Subject};
use crate::time_scale::scaled;
use leasehold_core::{AcquireOptions, LockName};
use std::time::Duration;

/// A client behind a proxy that has used the store, and does no more.
pub(crate) struct Witness {
    proxy: Proxy,
    before: u64,
    _client: Client,
}

/// Longer than it takes a server that has just been started to serve.
const PATIENCE: Duration = Duration::from_secs(5);
impl Witness {
    /// Connects, and uses a lock that nobody else wants meanwhile. `None` where there is no network between.
    pub(crate) async fn connect(
        subject: &dyn Subject,
        store: &dyn Store,
        name: &LockName,
    ) -> Result<Option<Self>, Stop> {
        let Some((proxy, address)) = optional(store.proxied(PATIENCE).await)? else { return Ok(None) };
        let client = subject.connect(&address).await?;
        first_use(&client, name, &AcquireOptions::new().with_wait(PATIENCE), scaled(PATIENCE)).await?;
        Ok(Some(Self { before: proxy.ended_by_servers(), proxy, _client: client }))
    }

    /// How many connections the store has ended since.
    pub(crate) fn ended(&self) -> u64 {
        self.proxy.ended_by_servers() - self.before
    }
}
