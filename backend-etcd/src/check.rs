//! Findings about a cluster: versions, alarms and settings that weaken the promises, and a trial lock.

use crate::EtcdBackend;
use crate::claims;
use crate::rpc::{ALARM, Empty, GRANT, LeaseGrantRequest, NO_SPACE, RANGE, RangeRequest, StatusResponse};
use crate::server_error::no_answer;
use leasehold_core::Severity::{Error, Info, Warning};
use leasehold_core::trial::try_queue;
use leasehold_core::{Finding, Result};
use leasehold_store_url::is_this_host;
use tokio::time::timeout;

/// From here on a leader that was replaced cannot end a lease that lives, and a watch misses nothing.
const SAFE_VERSION: [u32; 3] = [3, 5, 13];
/// A store with so many revisions that has never been compacted is not compacted by itself.
const MANY_REVISIONS: i64 = 100_000;
/// The shortest lease of a member with default timing.
const USUAL_SHORTEST_LEASE: i64 = 2;

/// Looks at each member and at the cluster, and tries a lock. A value that cannot be seen is a finding, and no failure. Fails if no
/// member serves.
pub(crate) async fn check(backend: &EtcdBackend) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for member in 0..backend.members.target.members.len() {
        check_member(backend, member, &mut findings).await?;
    }
    findings.extend(check_compaction(backend).await);
    findings.extend(check_shortest_lease(backend).await);
    findings.extend(check_access(backend));
    findings.extend(try_queue(backend).await?);
    Ok(findings)
}

/// One member's version and alarms.
async fn check_member(backend: &EtcdBackend, member: usize, findings: &mut Vec<Finding>) -> Result<()> {
    let target = &backend.members.target;
    let at = &target.members[member].to_string();
    let seen = timeout(target.timeout, backend.members.connect(member)).await;
    let (client, status) = match seen.unwrap_or_else(|_| Err(no_answer(at, target.timeout))) {
        Err(error) if error.is_outage() => {
            let help = "start it: every member that is down is one that may not fail any more";
            findings.push(Finding::new(Warning, "W_SERVER_DOWN", error.to_string(), help));
            return Ok(());
        }
        seen => seen?,
    };
    findings.extend(version_findings(at, &status));
    match client.call(&ALARM, Empty {}).await {
        Ok(answer) => findings.extend(answer.alarms.iter().map(|it| alarm_finding(at, it.alarm))),
        Err(error) => {
            let message = format!("the alarms of {at} cannot be seen: {error}");
            findings.push(Finding::new(Info, "I_NOT_SEEN", message, "ask as root"));
        }
    }
    Ok(())
}

fn version_findings(at: &str, status: &StatusResponse) -> Vec<Finding> {
    let leader = if status.leader == 0 { ", without a leader" } else { "" };
    let server = format!("{at} is etcd {}{leader}", status.version);
    let mut findings = vec![Finding::new(Info, "I_SERVER", server.clone(), "")];
    if parse_version(&status.version).is_some_and(|version| version < SAFE_VERSION) {
        let message = format!(
            "{server}: before 3.5.13, a leader that was replaced may end leases that live (etcd issue 15247), \
             and two may hold after a fail-over"
        );
        let help = "upgrade it; until then let what the lock protects check the token";
        findings.push(Finding::new(Warning, "W_VERSION", message, help));
    }
    findings
}

fn alarm_finding(at: &str, alarm: i32) -> Finding {
    let (code, problem, help) = match alarm {
        NO_SPACE => (
            "E_NO_SPACE",
            "whose quota of space is used up: no lock can be taken",
            "compact and defragment it, then: etcdctl alarm disarm",
        ),
        _ => ("E_CORRUPT", "whose data differ from the others'", "replace it: etcdctl alarm list"),
    };
    Finding::new(Error, code, format!("{at} tells of a member {problem}"), help)
}

/// A store that keeps every revision since its first one. What cannot be read here, the trial lock tells.
async fn check_compaction(backend: &EtcdBackend) -> Option<Finding> {
    let first = RangeRequest { key: vec![0], limit: 1, revision: 1, ..RangeRequest::default() };
    let revision = backend.members.call(&RANGE, first).await.ok()?.header?.revision;
    let message = format!("all {revision} revisions are kept: requests slow down, and the quota is used up");
    let help = "start the members with --auto-compaction-retention=1h";
    (revision > MANY_REVISIONS).then(|| Finding::new(Warning, "W_NO_COMPACTION", message, help))
}

/// The shortest lease, as the server grants it. What cannot be granted here, the trial lock tells.
async fn check_shortest_lease(backend: &EtcdBackend) -> Option<Finding> {
    let granted = backend.members.call(&GRANT, LeaseGrantRequest { ttl: 1 }).await.ok()?;
    let _ = claims::revoke(&backend.members, granted.id).await;
    let seconds = granted.ttl;
    let message = format!(
        "the shortest lease is {seconds} s: a crashed holder with a shorter ttl keeps others out for as long"
    );
    let help = "it is one and a half times --election-timeout of the members";
    (seconds > USUAL_SHORTEST_LEASE).then(|| Finding::new(Warning, "W_LONG_LEASE", message, help))
}

fn check_access(backend: &EtcdBackend) -> Vec<Finding> {
    let target = &backend.members.target;
    let (mut findings, is_encrypted) = (Vec::new(), target.tls.is_some());
    if target.login.is_none() && target.tls.as_ref().is_none_or(|tls| tls.identity.is_none()) {
        let message = "every client that reaches the members can take and free all locks";
        let help = "turn authentication on: etcdctl auth enable";
        findings.push(Finding::new(Warning, "W_NO_AUTH", message, help));
    }
    if !is_encrypted && target.login.is_some() {
        findings.push(Finding::clear_text());
    } else if !is_encrypted && !target.members.iter().all(|member| is_this_host(&member.host)) {
        let help = "let nobody else write to that network, or use etcd+tls://";
        findings.push(Finding::new(Info, "I_NO_TLS", "requests go over the network as they are", help));
    }
    findings
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
        for (version, is_safe) in
            [("3.4.23", false), ("3.5.9", false), ("3.5.13", true), ("3.6.0-rc.1", true)]
        {
            assert_eq!(parse_version(version).unwrap() >= SAFE_VERSION, is_safe, "{version}");
        }
        assert_eq!(parse_version("three"), None);
    }
}
