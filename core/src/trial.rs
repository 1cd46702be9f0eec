//! What the `check` of several backends does alike: the steps of a trial lock, and the questions whether an address is one server.

use crate::{
    Attempt, Claim, Error, ErrorKind, Finding, HolderInfo, LockBackend, LockMode, LockName, OwnerId, Release,
    Renewal, Result, Severity,
};
use std::collections::BTreeSet;
use std::error::Error as _;
use std::iter::successors;
use std::net::IpAddr;
use std::time::Duration;

/// A step that failed, as in "could not be *acquired*", and why.
pub type Failure = (&'static str, Error);

/// Long enough for every step of a trial lock in a queue.
const QUEUE_TTL: Duration = Duration::from_secs(15);

/// Acquires, renews, waits for, hands over and releases a lock in each mode, on a store with a queue of its own and a name that is
/// not in use, and removes it. A failure is a finding.
pub async fn try_queue(backend: &dyn LockBackend) -> Result<Option<Finding>> {
    let name = unused_name()?;
    let holder = HolderInfo::this_process().to_json();
    let claim = |mode: LockMode| -> Result<Claim> {
        let claim = Claim::new(name.clone(), OwnerId::random()?, QUEUE_TTL, holder.as_str().into());
        Ok(claim.with_mode(mode).with_waiting(true))
    };
    let writer = claim(LockMode::Exclusive)?;
    let readers = [claim(LockMode::Shared)?, claim(LockMode::Shared)?];
    let tried = try_steps(backend, &writer, &readers).await;
    // Also after a step that failed, or whose answer did not come.
    let mut removed = Ok(());
    for claim in readers.iter().chain([&writer]) {
        removed = removed.and(backend.release(claim, Duration::ZERO).await.map(drop));
    }
    if let Some(admin) = backend.admin() {
        removed = removed.and(admin.forget(&[name]).await);
    }
    Ok(tried.and(removed.map_err(|why| ("removed", why))).err().map(finding))
}

async fn try_steps(backend: &dyn LockBackend, writer: &Claim, readers: &[Claim]) -> Result<(), Failure> {
    acquire(backend, writer).await.map_err(|why| ("acquired", why))?;
    renew(backend, writer).await.map_err(|why| ("renewed", why))?;
    for reader in readers {
        match backend.try_acquire(reader).await {
            Ok(Attempt::Busy(_)) => {}
            Ok(Attempt::Granted(_)) => return Err(("kept", failed("another owner was granted it too"))),
            Err(why) => return Err(("waited for", why)),
        }
    }
    release(backend, writer).await.map_err(|why| ("released", why))?;
    share(backend, readers).await
}

/// The name of a trial lock.
pub fn unused_name() -> Result<LockName> {
    LockName::new(format!("leasehold/check/{}", OwnerId::random()?.to_hex()))
}

/// Acquires it for all readers, then renews and releases each of them.
pub async fn share(backend: &dyn LockBackend, readers: &[Claim]) -> Result<(), Failure> {
    for reader in readers {
        acquire(backend, reader).await.map_err(|why| ("shared", why))?;
    }
    for reader in readers {
        renew(backend, reader).await.map_err(|why| ("renewed by a reader", why))?;
        release(backend, reader).await.map_err(|why| ("released by a reader", why))?;
    }
    Ok(())
}

/// Acquires it; an error if it is held.
pub async fn acquire(backend: &dyn LockBackend, claim: &Claim) -> Result<()> {
    match backend.try_acquire(claim).await? {
        Attempt::Granted(_) => Ok(()),
        Attempt::Busy(_) => Err(failed("the store has it as held by another")),
    }
}

/// Renews it; an error if it is not held.
pub async fn renew(backend: &dyn LockBackend, claim: &Claim) -> Result<()> {
    match backend.renew(std::slice::from_ref(claim)).await.pop() {
        Some(Ok(Renewal::Renewed)) => Ok(()),
        Some(Err(why)) => Err(why),
        _ => Err(failed("the store does not have it as held")),
    }
}

/// Releases it; an error if it was not held.
pub async fn release(backend: &dyn LockBackend, claim: &Claim) -> Result<()> {
    match backend.release(claim, Duration::ZERO).await? {
        Release::Released => Ok(()),
        _ => Err(failed("the store does not have it as held")),
    }
}

/// What `check` says of a step that failed: with all causes, since there is one line.
pub fn finding((step, why): Failure) -> Finding {
    let causes = successors(why.source(), |&cause| cause.source()).map(|cause| format!(": {cause}"));
    let message = format!("a trial lock could not be {step}: {why}{}", causes.collect::<String>());
    Finding::new(Severity::Error, "E_TRIAL", message, why.help().unwrap_or_default().to_owned())
}

/// The store answers, and not as a store of ours does.
pub fn failed(what: &'static str) -> Error {
    Error::new(ErrorKind::Misconfigured, what)
        .with_help("look at what else writes there, and at what stands between here and the store")
}

/// The finding of connections to one address that led to several servers, by what each says it is.
pub fn servers_finding(servers: impl IntoIterator<Item = String>, help: &'static str) -> Option<Finding> {
    let servers = Vec::from_iter(BTreeSet::from_iter(servers));
    let what = format!(
        "connections to one address lead to {} servers, {}: two processes may lock on different ones",
        servers.len(),
        servers.join(" and ")
    );
    (servers.len() > 1).then(|| Finding::new(Severity::Error, "E_SERVERS", what, help))
}

/// The finding of a host name with several addresses. Two of one family may be two servers; an IPv4 and an IPv6 address are as a
/// rule one host.
pub fn addresses_finding(addresses: &[IpAddr], help: &'static str) -> Option<Finding> {
    let (v4, v6): (BTreeSet<&IpAddr>, BTreeSet<&IpAddr>) = addresses.iter().partition(|it| it.is_ipv4());
    let count = v4.len().max(v6.len());
    let what = format!("the host name has {count} addresses: two processes may lock on different servers");
    (count > 1).then(|| Finding::new(Severity::Warning, "W_ADDRESSES", what, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_servers_or_addresses_of_one_family_are_found() {
        let servers = |all: &[&str]| servers_finding(all.iter().map(|it| (*it).to_owned()), "");
        assert!(servers(&["a", "a"]).is_none());
        assert!(servers(&["b", "a", "b"]).unwrap().message.contains("2 servers, a and b:"));
        let addresses = |all: &[&str]| {
            addresses_finding(&all.iter().map(|it| it.parse().unwrap()).collect::<Vec<_>>(), "").is_some()
        };
        assert!(!addresses(&["127.0.0.1", "::1", "127.0.0.1"]));
        assert!(addresses(&["127.0.0.1", "127.0.0.2"]));
    }
}
