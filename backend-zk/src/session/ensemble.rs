//! Which ensemble gives the sessions: a client whose address was led to another one says so.

use crate::locked;
use crate::target::Target;
use leasehold_core::KnownServers;
use std::sync::Mutex;
use tokio::time::timeout;
use zookeeper_client::Client;

/// When the directory of the locks was made, as the leader has it: no two ensembles have that in common. `None` if it cannot be seen.
pub(crate) async fn origin(client: &Client, base: &str) -> Option<String> {
    client.sync(base).await.ok()?;
    Some(match client.check_stat(base).await.ok()? {
        Some(stat) => format!("one with {base} of transaction {:#x} at {} ms", stat.czxid, stat.ctime),
        None => without(base),
    })
}

fn without(base: &str) -> String {
    format!("one without {base}")
}

/// The ensemble that gives the sessions of a backend, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Ensemble {
    pub(crate) servers: KnownServers,
    /// The origin that the last session has seen.
    last: Mutex<Option<String>>,
}

impl Ensemble {
    /// Compares that of a new session with that of the session before. A directory that was missing then may have been made since.
    pub(super) async fn compare(&self, target: &Target, client: &Client) {
        let seen = timeout(target.timeouts.request, origin(client, &target.base)).await;
        let Ok(Some(now)) = seen else { return };
        let before = locked(&self.last).replace(now.clone());
        if let Some(before) = before.filter(|before| ![&now, &without(&target.base)].contains(&before)) {
            let address = target.servers.to_string();
            [before, now].iter().for_each(|server| self.servers.note(&address, server));
        }
    }
}
