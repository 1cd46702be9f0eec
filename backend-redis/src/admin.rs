use crate::backend::RedisBackend;
use crate::check;
use crate::connection::ServerLink;
use crate::keys::Keys;
use crate::server_error::unknown_is_unavailable;
use crate::{reply, scripts, trial};
use async_trait::async_trait;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use leasehold_core::trial::unused_name;
use leasehold_core::{
    AcquireOptions, Attempt, Claim, Error, ErrorKind, FencingToken, Finding, LockAdmin, LockBackend,
    LockName, LockStatus, OwnerId, Result, Severity, Waiter,
};
use std::collections::BTreeSet;

/// How many keys the server looks at for one answer to `SCAN`; it serves no other client meanwhile.
const SCAN_COUNT: u32 = 1000;
const NAMES_AT_ONCE: usize = 256;

#[async_trait]
impl LockAdmin for RedisBackend {
    /// A lock of another program is shown without owner and token. A lock whose key has vanished is shown as held for as long as
    /// it is kept for its holder.
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let keys = self.keys.of(name);
        let known = self.servers.run(&scripts::INSPECT, &keys, &[]).await.map_err(unknown_is_unavailable)?;
        reply::holds(name, &known)
    }

    /// Reads the names of all keys of the database, on every server that has some. Locks that other programs hold are not
    /// found: nothing but the name of its key tells such a lock from any other value.
    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let (held, unseen) = self.list_reachable(prefix).await?;
        unseen.into_iter().next().map_or(Ok(held), Err)
    }

    async fn list_reachable(&self, prefix: &str) -> Result<(Vec<LockStatus>, Vec<Error>)> {
        let links = self.servers.each().await.map_err(unknown_is_unavailable)?;
        let (mut names, mut unseen) = (BTreeSet::new(), Vec::new());
        for link in links.iter().cloned() {
            let found = async { held_names(&*link?, &self.keys, prefix).await };
            match found.await.map_err(unknown_is_unavailable) {
                Ok(found) => names.extend(found),
                Err(why) => unseen.push(why),
            }
        }
        if unseen.len() == links.len() {
            return Err(unseen.swap_remove(0));
        }
        let (held, failed) = inspect_ours(self, names).await;
        unseen.extend(failed);
        Ok((held, unseen))
    }

    /// The waiters that use this library. Some may be dead, and are skipped when their turn comes. Programs that know only the
    /// lock key wait unseen.
    async fn waiters(&self, name: &LockName) -> Result<Vec<Waiter>> {
        let keys = self.keys.of(name);
        let known = self.servers.run(&scripts::WAITERS, &keys, &[]).await.map_err(unknown_is_unavailable)?;
        reply::waiters(&known)
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let keys = self.keys.of(name);
        let only_if = only_if.map(|token| token.to_string()).unwrap_or_default();
        let before = self.servers.run(&scripts::FORCE_RELEASE, &keys, &[&only_if]).await?;
        reply::holds(name, &before)
    }

    /// There is nothing to create. Makes sure that the servers answer.
    async fn init(&self) -> Result<()> {
        for link in self.servers.each().await? {
            link?.command_to_primary(redis::cmd("PING")).await?;
        }
        Ok(())
    }

    /// Each name is acquired first: one that is held, or waited for, is not granted.
    async fn forget(&self, names: &[LockName]) -> Result<()> {
        let forget = |name| async move {
            let claim = Claim::new(name, OwnerId::random()?, AcquireOptions::DEFAULT_TTL, "".into());
            match self.try_acquire(&claim).await? {
                Attempt::Granted(_) => self.servers.delete(&self.keys.of(claim.name())).await,
                Attempt::Busy(_) => Ok(()),
            }
        };
        stream::iter(names.to_vec()).map(Ok).try_for_each_concurrent(NAMES_AT_ONCE, forget).await
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        let mut findings = check::check(self, &self.keys.of(&unused_name()?)).await?;
        // An error names its cause better than a trial does.
        let tells_enough =
            |finding: &Finding| finding.severity == Severity::Error && finding.code != "E_SERVER";
        if !findings.iter().any(tells_enough) {
            let is_told = |finding: &Finding| finding.code == "W_UNHEARD";
            let is_known = findings.iter().any(is_told);
            let tried = trial::try_locks(self).await?;
            findings.extend(tried.into_iter().filter(|finding| !(is_known && is_told(finding))));
        }
        Ok(findings)
    }
}

/// The holds of these names, each as far as a record of ours tells of it, and the first failure. With an empty prefix, another
/// program's keys may look like ours.
pub(crate) async fn inspect_ours(
    admin: &impl LockAdmin,
    names: BTreeSet<LockName>,
) -> (Vec<LockStatus>, Option<Error>) {
    let inspect = |name| async move { admin.inspect(&name).await };
    let mut inspected = stream::iter(names).map(inspect).buffered(NAMES_AT_ONCE);
    let (mut held, mut failed) = (Vec::new(), None);
    while let Some(holds) = inspected.next().await {
        match holds {
            Ok(holds) => held.extend(holds.into_iter().filter(|hold| hold.token.is_some())),
            Err(error) if error.kind() == ErrorKind::Misconfigured => {}
            Err(error) => failed = failed.or(Some(unknown_is_unavailable(error))),
        }
    }
    (held, failed)
}

/// The names that are held. `SCAN` may give a key twice, and a name that comes or goes meanwhile or not.
pub(crate) async fn held_names(link: &ServerLink, keys: &Keys, prefix: &str) -> Result<BTreeSet<LockName>> {
    let mut names = BTreeSet::new();
    for (pattern, kind) in keys.held_patterns(prefix) {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern);
            scan.arg("COUNT").arg(SCAN_COUNT).arg("TYPE").arg(kind);
            let (next, found): (String, Vec<String>) = reply::parse(&link.command_to_primary(scan).await?)?;
            names.extend(found.iter().filter_map(|key| keys.held_name(key)));
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
    }
    Ok(names)
}
