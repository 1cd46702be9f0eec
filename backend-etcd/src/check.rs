//! Findings about a cluster: versions, alarms and settings that weaken the promises, and a trial lock.

use crate::EtcdBackend;
use crate::etcd_error::EtcdError;
use crate::leases;
use crate::rpc::{
    ALARM, CORRUPT, Empty, GRANT, LeaseGrantRequest, MEMBER_LIST, NO_SPACE, RANGE, RangeRequest,
    StatusResponse,
};
use leasehold_core::Severity::{Error, Info, Warning};
use leasehold_core::trial::try_queue;
use leasehold_core::{Finding, Result};
use std::net::IpAddr;
use tokio::time::timeout;

/// From here on a leader that was replaced cannot end a lease that lives, and a watch misses nothing.
const SAFE_VERSION: [u32; 3] = [3, 5, 13];
/// The first version that has all requests of ours.
const LEAST_VERSION: [u32; 3] = [3, 4, 0];
/// A store with so many revisions that has never been compacted is not compacted by itself.
const MANY_REVISIONS: i64 = 100_000;
/// The shortest lease of a member with default timing.
const USUAL_SHORTEST_LEASE: i64 = 2;
/// Half of the default quota.
const LARGE_BYTES: i64 = 1 << 30;

/// Looks at each member and at the cluster, and tries a lock. A value that cannot be seen is a finding, and no failure. Fails if no
/// member serves.
pub(crate) async fn check(backend: &EtcdBackend) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for member in 0..backend.members.target.members.len() {
        check_member(backend, member, &mut findings).await?;
    }
    findings.extend(check_compaction(backend).await?);
    findings.extend(check_shortest_lease(backend).await);
    check_access(backend, &mut findings);
    findings.extend(try_queue(backend).await?);
    Ok(findings)
}

/// One member's version and alarms. The first is also asked for the members that there are.
async fn check_member(backend: &EtcdBackend, member: usize, findings: &mut Vec<Finding>) -> Result<()> {
    let target = &backend.members.target;
    let (at, count) = (&target.address(member), target.members.len());
    let seen = timeout(target.timeout, backend.members.connect(member)).await;
    let (client, status) = match seen.unwrap_or_else(|_| Err(EtcdError::no_answer(at, target.timeout))) {
        Ok(seen) => seen,
        Err(error) if error.is_outage() => {
            let help = "start it: every member that is down is one that may not fail any more";
            let message = error.into_read_error().to_string();
            findings.push(Finding::new(Warning, "W_SERVER_DOWN", message, help));
            return Ok(());
        }
        Err(error) => return Err(error.into_read_error()),
    };
    check_version(at, &status, findings);
    let not_seen = |what, error: EtcdError| {
        let message = format!("{what} of {at} cannot be seen: {}", error.into_read_error());
        Finding::new(Info, "I_NOT_SEEN", message, "ask as root")
    };
    match client.call(&ALARM, Empty {}).await {
        Ok(answer) => {
            findings.extend(answer.alarms.iter().filter_map(|alarm| alarm_finding(at, alarm.alarm)))
        }
        Err(error) => findings.push(not_seen("its alarms", error)),
    }
    if status.db_size > LARGE_BYTES {
        let size = status.db_size >> 20;
        let message = format!("{at} has {size} MiB on disk; the quota is 2048 MiB unless it was raised");
        let help = "compact and defragment it: etcdctl compact, etcdctl defrag";
        findings.push(Finding::new(Warning, "W_LARGE", message, help));
    }
    if member > 0 {
        return Ok(());
    }
    match client.call(&MEMBER_LIST, Empty {}).await {
        Ok(list) if list.members.len() > count => {
            let message =
                format!("the cluster has {} members, and the URL names {count}", list.members.len());
            let help = "name them all: etcd://h1,h2,h3; with one alone, locks end with it";
            findings.push(Finding::new(Warning, "W_MEMBERS", message, help));
        }
        Ok(_) => {}
        Err(error) => findings.push(not_seen("the list of members", error)),
    }
    Ok(())
}

fn check_version(at: &str, status: &StatusResponse, findings: &mut Vec<Finding>) {
    let leader = if status.leader == 0 { ", without a leader" } else { "" };
    let server = format!("{at} is etcd {}{leader}", status.version);
    findings.push(Finding::new(Info, "I_SERVER", server.clone(), ""));
    let (severity, code, problem, help) = match parse_version(&status.version) {
        Some(version) if version < LEAST_VERSION => {
            (Error, "E_VERSION", "locks need 3.4", "upgrade it, best to 3.5.13 or later")
        }
        Some(version) if version < SAFE_VERSION => (
            Warning,
            "W_VERSION",
            "before 3.5.13, a leader that was replaced may end leases that live (etcd issue 15247), and two may hold after a fail-over",
            "upgrade it; until then let what the lock protects check the token",
        ),
        _ => return,
    };
    findings.push(Finding::new(severity, code, format!("{server}: {problem}"), help));
}

fn alarm_finding(at: &str, alarm: i32) -> Option<Finding> {
    let (code, problem, help) = match alarm {
        NO_SPACE => (
            "E_NO_SPACE",
            "whose quota of space is used up: no lock can be taken",
            "compact and defragment it, then: etcdctl alarm disarm",
        ),
        CORRUPT => ("E_CORRUPT", "whose data differ from the others'", "replace it: etcdctl alarm list"),
        _ => return None,
    };
    Some(Finding::new(Error, code, format!("{at} tells of a member {problem}"), help))
}

/// A store that keeps every revision since its first one.
async fn check_compaction(backend: &EtcdBackend) -> Result<Option<Finding>> {
    let read = |revision| {
        let range = RangeRequest { key: vec![0], limit: 1, revision, ..RangeRequest::default() };
        backend.members.call(&RANGE, range)
    };
    let revision = match read(0).await {
        Ok(answer) => answer.header.unwrap_or_default().revision,
        // This user may not read there.
        Err(EtcdError::Refused(_)) => return Ok(None),
        Err(error) => return Err(error.into_read_error()),
    };
    let is_kept = revision > MANY_REVISIONS && read(1).await.is_ok();
    let message =
        format!("all {revision} revisions are kept: requests become slower, and the quota is used up");
    let help = "start the members with --auto-compaction-retention=1h";
    Ok(is_kept.then(|| Finding::new(Warning, "W_NO_COMPACTION", message, help)))
}

/// The shortest lease, as the server grants it. What cannot be granted here, the trial lock tells.
async fn check_shortest_lease(backend: &EtcdBackend) -> Option<Finding> {
    let granted = backend.members.call(&GRANT, LeaseGrantRequest { ttl: 1 }).await.ok()?;
    let _ = leases::revoke(&backend.members, granted.id).await;
    let seconds = granted.ttl;
    let message = format!(
        "the shortest lease is {seconds} s: a crashed holder with a shorter ttl keeps others out for as long"
    );
    let help = "it is one and a half times --election-timeout of the members";
    (seconds > USUAL_SHORTEST_LEASE).then(|| Finding::new(Warning, "W_LONG_LEASE", message, help))
}

fn check_access(backend: &EtcdBackend, findings: &mut Vec<Finding>) {
    let target = &backend.members.target;
    if target.login.is_none() && !target.tls.as_ref().is_some_and(crate::tls::Tls::has_identity) {
        let message = "every client that reaches the members can take and free all locks";
        findings.push(Finding::new(
            Warning,
            "W_NO_AUTH",
            message,
            "turn authentication on: etcdctl auth enable",
        ));
    }
    let is_remote =
        |host: &str| host != "localhost" && !host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if target.tls.is_none() && target.login.is_some() {
        findings.push(Finding::clear_text());
    } else if target.tls.is_none() && target.members.iter().any(|member| is_remote(&member.host)) {
        let help = "let nobody else write to that network, or use etcd+tls://";
        findings.push(Finding::new(Info, "I_NO_TLS", "requests go over the network as they are", help));
    }
}

fn parse_version(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split(['.', '-', '+']).map(str::parse);
    Some([parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?])
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
