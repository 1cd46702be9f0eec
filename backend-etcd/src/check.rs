//! Findings about a cluster: versions, alarms and settings that weaken the promises, and a trial lock.

use crate::EtcdBackend;
use crate::failure::{EtcdError, EtcdResult};
use crate::leases;
use crate::link::Link;
use crate::trial;
use crate::wire::{
    AlarmRequest, LeaseGrantRequest, MemberListRequest, RangeRequest, StatusRequest, StatusResponse,
};
use leasehold_core::{Finding, Result, Severity};
use std::time::Duration;
use tokio::time::timeout;

/// From here on a leader that was replaced cannot end a lease that lives, and a watch misses nothing.
const SAFE_VERSION: [u32; 3] = [3, 5, 13];
/// The first version that has all requests of ours.
const LEAST_VERSION: [u32; 3] = [3, 4, 0];
/// A store with so many revisions that has never been compacted is not compacted by itself.
const MANY_REVISIONS: i64 = 100_000;
/// The least lease of a member with default timing.
const USUAL_LEAST_LEASE: i64 = 2;
/// Half of the default quota.
const LARGE_BYTES: i64 = 1 << 30;

/// Looks at each member and at the cluster, and tries a lock. A value that cannot be seen is a finding, and no failure. Fails if no
/// member serves.
pub(crate) async fn check(backend: &EtcdBackend) -> Result<Vec<Finding>> {
    let members = &backend.shared.members;
    let mut findings = Vec::new();
    for member in 0..members.target.members.len() {
        check_member(backend, member, &mut findings).await?;
    }
    let oldest = RangeRequest { key: b"\0".to_vec(), limit: 1, revision: 1, ..RangeRequest::default() };
    let now = RangeRequest { revision: 0, ..oldest.clone() };
    let (oldest, now) = (&oldest, &now);
    let seen = members.ask(|link| async move { link.call(now.clone()).await }).await;
    match seen {
        Ok(now) => {
            let revision = now.header.map_or(0, |header| header.revision);
            let is_kept = members.ask(|link| async move { link.call(oldest.clone()).await }).await.is_ok();
            if is_kept && revision > MANY_REVISIONS {
                findings.push(warning(
                    "W_NO_COMPACTION",
                    format!(
                        "all {revision} revisions are kept: requests become slower, and the quota is used up"
                    ),
                    "start the members with --auto-compaction-retention=1h",
                ));
            }
        }
        Err(EtcdError::Refused(_)) => {}
        Err(error) => return Err(error.into_read_error()),
    }
    check_leases(backend, &mut findings).await;
    check_access(backend, &mut findings);
    findings.extend(trial::try_lock(backend).await?);
    Ok(findings)
}

/// One member's version and alarms. The first that answers is also asked for the members that there are.
async fn check_member(backend: &EtcdBackend, member: usize, findings: &mut Vec<Finding>) -> Result<()> {
    let members = &backend.shared.members;
    let address = members.target.address(member);
    let seen = timeout(members.target.timeout, async {
        let link = members.connect(member).await?;
        Ok::<_, EtcdError>((link.call(StatusRequest {}).await?, link))
    });
    let seen: EtcdResult<(StatusResponse, Link)> =
        seen.await.unwrap_or_else(|_| Err(EtcdError::no_answer(&address, members.target.timeout)));
    let (status, link) = match seen {
        Ok(seen) => seen,
        Err(error) if error.is_outage() => {
            let message = format!("{}", error.into_read_error());
            let help = "start it: every member that is down is one that may not fail any more";
            findings.push(warning("W_SERVER_DOWN", message, help));
            return Ok(());
        }
        Err(error) => return Err(error.into_read_error()),
    };
    check_version(&address, &status, findings);
    match link.call(AlarmRequest {}).await {
        Ok(alarms) => {
            let kinds: Vec<i32> = alarms.alarms.iter().map(|it| it.alarm).collect();
            check_alarms(&address, &kinds, findings);
        }
        Err(error) => findings.push(not_seen(&address, "its alarms", error)),
    }
    if status.db_size > LARGE_BYTES {
        findings.push(warning(
            "W_LARGE",
            format!(
                "{address} has {} MiB on disk; the quota is 2048 MiB unless it was raised",
                status.db_size >> 20
            ),
            "compact and defragment it: etcdctl compact, etcdctl defrag",
        ));
    }
    if member == 0 {
        match link.call(MemberListRequest {}).await {
            Ok(list) if list.members.len() > members.target.members.len() => findings.push(warning(
                "W_MEMBERS",
                format!(
                    "the cluster has {} members, and the URL names {}",
                    list.members.len(),
                    members.target.members.len()
                ),
                "name them all: etcd://h1,h2,h3; with one alone, locks end with it",
            )),
            Ok(_) => {}
            Err(error) => findings.push(not_seen(&address, "the list of members", error)),
        }
    }
    Ok(())
}

fn check_version(address: &str, status: &StatusResponse, findings: &mut Vec<Finding>) {
    let version = &status.version;
    let what = if status.leader == 0 { ", without a leader" } else { "" };
    findings.push(info("I_SERVER", format!("{address} is etcd {version}{what}"), ""));
    let Some(number) = parse_version(version) else { return };
    if number < LEAST_VERSION {
        findings.push(Finding::new(
            Severity::Error,
            "E_VERSION",
            format!("{address} is etcd {version}: locks need 3.4"),
            "upgrade it, best to 3.5.13 or later",
        ));
    } else if number < SAFE_VERSION {
        findings.push(warning(
            "W_VERSION",
            format!("{address} is etcd {version}: before 3.5.13, a leader that was replaced may end leases that live (etcd issue 15247), and two may hold after a fail-over"),
            "upgrade it; until then let what the lock protects check the token",
        ));
    }
}

fn check_alarms(address: &str, alarms: &[i32], findings: &mut Vec<Finding>) {
    if alarms.contains(&1) {
        findings.push(Finding::new(
            Severity::Error,
            "E_NO_SPACE",
            format!("{address} tells of a member whose quota of space is used up: no lock can be taken"),
            "compact and defragment it, then: etcdctl alarm disarm",
        ));
    }
    if alarms.contains(&2) {
        findings.push(Finding::new(
            Severity::Error,
            "E_CORRUPT",
            format!("{address} tells of a member whose data differ from the others'"),
            "replace that member: etcdctl alarm list",
        ));
    }
}

/// The least lease, as the server grants it.
async fn check_leases(backend: &EtcdBackend, findings: &mut Vec<Finding>) {
    let members = &backend.shared.members;
    let grant = LeaseGrantRequest { ttl: 1 };
    // What cannot be granted here, the trial lock tells.
    let Ok(granted) = members.ask(|link| async move { link.call(grant).await }).await else { return };
    let _ = leases::revoke(members, granted.id).await;
    if granted.ttl > USUAL_LEAST_LEASE {
        findings.push(warning(
            "W_LONG_LEASE",
            format!("the shortest lease is {:?}: a crashed holder with a shorter ttl keeps others out for as long", Duration::from_secs(granted.ttl.unsigned_abs())),
            "it is one and a half times --election-timeout of the members",
        ));
    }
}

fn check_access(backend: &EtcdBackend, findings: &mut Vec<Finding>) {
    let target = &backend.shared.members.target;
    let has_identity = target.tls.as_ref().is_some_and(crate::tls::Tls::has_identity);
    if target.login.is_none() && !has_identity {
        findings.push(warning(
            "W_NO_AUTH",
            "every client that reaches the members can take and free all locks".to_owned(),
            "turn authentication on: etcdctl auth enable",
        ));
    }
    if target.tls.is_some() {
        return;
    }
    if target.login.is_some() {
        findings.push(Finding::clear_text());
    } else if target.members.iter().any(|member| !is_this_host(&member.host)) {
        findings.push(info(
            "I_NO_TLS",
            "requests go over the network as they are".to_owned(),
            "let nobody else write to that network, or use etcd+tls://",
        ));
    }
}

fn is_this_host(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn parse_version(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split(['.', '-', '+']).map(str::parse);
    Some([parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?])
}

fn warning(code: &'static str, message: String, help: &'static str) -> Finding {
    Finding::new(Severity::Warning, code, message, help)
}

fn info(code: &'static str, message: String, help: &'static str) -> Finding {
    Finding::new(Severity::Info, code, message, help)
}

fn not_seen(address: &str, what: &str, error: EtcdError) -> Finding {
    let error = error.into_read_error();
    info("I_NOT_SEEN", format!("{what} of {address} cannot be seen: {error}"), "ask as root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_compared_by_its_numbers() {
        assert!(parse_version("3.4.23").unwrap() < SAFE_VERSION);
        assert!(parse_version("3.5.9").unwrap() < SAFE_VERSION);
        assert!(parse_version("3.5.13").unwrap() >= SAFE_VERSION);
        assert!(parse_version("3.6.0-rc.1").unwrap() >= SAFE_VERSION);
        assert_eq!(parse_version("three"), None);
    }
}
