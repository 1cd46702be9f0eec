//! What about the servers would weaken the promises.

use crate::backend::RedisBackend;
use crate::connection::{ServerLink, wait_for};
use crate::finding::error_finding;
use crate::keys::LockKeys;
use crate::reply::parse;
use crate::rights;
use crate::server_error::{TO_PRIMARY, unknown_is_unavailable};
use crate::servers::SINGLE;
use crate::target::Replicas;
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// The settings that matter.
const EVICTION: &str = "maxmemory-policy";
const APPEND_ONLY: &str = "appendonly";
const SYNC: &str = "appendfsync";

/// Looks at the servers. What they do not let us see is said, and is no failure. `keys` are those of a name that is not in use.
/// Errors as of any request, if one does not answer, or none of them lets us in.
pub(crate) async fn check(backend: &RedisBackend, keys: &LockKeys) -> Result<Vec<Finding>> {
    let (mut findings, mut refused) = (Vec::new(), Vec::new());
    let links = backend.servers.each().await.map_err(unknown_is_unavailable)?;
    for link in &links {
        let mut of_node = match denied_apart(link.connection().await)? {
            Ok(_) => look_at_server(backend, link, keys).await?,
            Err(why) => {
                refused.push(why.clone());
                vec![unusable(&why)]
            }
        };
        if backend.servers.mode() != SINGLE {
            for finding in &mut of_node {
                finding.message.insert_str(0, &format!("{}: ", link.route));
            }
        }
        findings.extend(of_node);
    }
    match refused.first() {
        Some(why) if refused.len() == links.len() => Err(why.clone()),
        _ => Ok(findings),
    }
}

async fn look_at_server(backend: &RedisBackend, link: &ServerLink, keys: &LockKeys) -> Result<Vec<Finding>> {
    let mut findings = look_at(link).await?;
    // The rights are looked at before the slot: those to any key can be asked of any node.
    findings.extend(rights::missing(link, backend.servers.is_cluster(), keys).await);
    if let Some(replicas) = backend.replicas {
        findings.extend(replica_finding(link, replicas).await?);
    }
    Ok(findings)
}

/// The identity and the settings of the server. Errors as of [`check`].
pub(crate) async fn look_at(link: &ServerLink) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    match denied_apart(link.facts().await)? {
        Ok(facts) => {
            let what =
                format!("the server is {} {}, {}, {}", facts.flavour, facts.version, facts.mode, facts.role);
            findings.push(Finding::new(Severity::Info, "I_SERVER", what, ""));
            if ["replica", "slave"].contains(&&*facts.role) {
                let what = "the server is a replica, and takes no writes";
                findings.push(Finding::new(Severity::Error, "E_REPLICA", what, TO_PRIMARY));
            }
        }
        Err(why) => findings.push(not_seen("who the server is", &why)),
    }
    let question = redis::cmd("CONFIG").arg("GET").arg(&[EVICTION, APPEND_ONLY, SYNC]).take();
    match denied_apart(link.command(&question).await.and_then(|settings| parse(&settings)))? {
        Ok(settings) => setting_findings(&settings, &mut findings),
        Err(why) => findings.push(not_seen("the settings of the server", &why)),
    }
    findings.extend(link.route.shows_password().then(Finding::clear_text));
    findings.extend(address_finding(&link.route.addresses().await));
    Ok(findings)
}

/// Two addresses of one family may be two servers; an IPv4 and an IPv6 address are as a rule one host.
fn address_finding(addresses: &[IpAddr]) -> Option<Finding> {
    let (v4, v6): (HashSet<&IpAddr>, HashSet<&IpAddr>) = addresses.iter().partition(|it| it.is_ipv4());
    let count = v4.len().max(v6.len());
    let what = format!("the host name has {count} addresses: two processes may lock on different servers");
    let help = "use the address of one server, or a URL of Sentinels, a cluster or redlock://";
    (count > 1).then(|| Finding::new(Severity::Warning, "W_ADDRESSES", what, help))
}

/// Whether there are as many replicas as are waited for.
async fn replica_finding(link: &ServerLink, replicas: Replicas) -> Result<Option<Finding>> {
    let wanted = replicas.count;
    match denied_apart(link.command(&wait_for(replicas)).await.and_then(|count| parse::<u32>(&count)))? {
        Ok(count) if count >= wanted => Ok(None),
        Ok(count) => Ok(Some(Finding::new(
            Severity::Error,
            "E_REPLICAS",
            format!(
                "{count} replicas follow the server, and wait_replicas asks for {wanted}: no lock is granted"
            ),
            "look at the replicas: INFO replication; or lower wait_replicas in the URL",
        ))),
        Err(why) => Ok(Some(unusable(&why))),
    }
}

/// A node that refuses the login, or that is none for locks, beside others that are; or one that does not count its replicas.
fn unusable(why: &Error) -> Finding {
    let code = if why.kind() == ErrorKind::Denied { "E_DENIED" } else { "E_SERVER" };
    error_finding(Severity::Error, code, "", why)
}

fn not_seen(what: &str, why: &Error) -> Finding {
    error_finding(Severity::Info, "I_NOT_SEEN", &format!("cannot see {what}: "), why)
}

fn setting_findings(settings: &HashMap<String, String>, findings: &mut Vec<Finding>) {
    let setting = |name| settings.get(name).map(String::as_str);
    if let Some(policy) = setting(EVICTION).filter(|policy| *policy != "noeviction") {
        findings.push(Finding::new(
            Severity::Warning,
            "W_EVICT",
            format!("maxmemory-policy is {policy:?}: when its memory is full, the server may evict a lock"),
            "set maxmemory-policy to noeviction, or keep locks on a server of their own",
        ));
    }
    match (setting(APPEND_ONLY), setting(SYNC)) {
        (Some("yes"), Some("always")) | (None, _) => {}
        (Some("yes"), _) => findings.push(Finding::new(
            Severity::Info,
            "I_POWER_LOSS",
            "appendfsync is not \"always\": when its machine loses power, the server forgets the last second's grants; tokens grow nevertheless",
            "set appendfsync to always, or let what you protect check the token",
        )),
        (Some(_), _) => findings.push(Finding::new(
            Severity::Warning,
            "W_RESTART",
            "appendonly is off: when it is started again, the server has forgotten who holds what; tokens grow nevertheless",
            "set appendonly to yes, or let what you protect check the token",
        )),
    }
}

/// Sorts "was not told" from "could not ask". A look that is broken off has changed nothing, and leaves no doubt.
fn denied_apart<T>(answer: Result<T>) -> Result<Result<T>> {
    match answer.map_err(unknown_is_unavailable) {
        Err(error) if !matches!(error.kind(), ErrorKind::Denied | ErrorKind::Misconfigured) => Err(error),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_addresses_of_one_family_are_warned_of() {
        let warned = |addresses: &[&str]| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            address_finding(&addresses).is_some()
        };
        assert!(!warned(&[]) && !warned(&["127.0.0.1", "::1"]) && !warned(&["10.0.0.1", "10.0.0.1"]));
        assert!(warned(&["10.0.0.1", "10.0.0.2"]) && warned(&["10.0.0.1", "fd00::1", "fd00::2"]));
    }
}
