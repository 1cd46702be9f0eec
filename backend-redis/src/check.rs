//! What about the servers would weaken the promises.

use crate::backend::Mode;
use crate::connection::{Confirmed, Link, ServerFacts};
use crate::keys::LockKeys;
use crate::reply;
use crate::rights;
use crate::servers::{PrimaryNode, Servers};
use crate::target::Replicas;
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// The settings that matter.
const EVICTION: &str = "maxmemory-policy";
const APPEND_ONLY: &str = "appendonly";
const SYNC: &str = "appendfsync";

/// Looks at the servers. What they do not let us see is said, and is no failure. `keys` are those of a name that nobody
/// uses.
///
/// # Errors
///
/// As of any request, if one does not answer, or none of them lets us in.
pub(crate) async fn check(
    servers: &Servers,
    mode: Mode,
    replicas: Option<Replicas>,
    keys: &LockKeys,
) -> Result<Vec<Finding>> {
    let (mut findings, mut refused) = (Vec::new(), Vec::new());
    let nodes = servers.each().await.map_err(unknown_is_unavailable)?;
    for node in &nodes {
        let of_node = match denied_apart(node.link.connect().await)? {
            Ok(()) => look_at_server(node, mode, replicas, keys).await?,
            Err(why) => {
                let found = vec![unusable(&why)];
                refused.push(why);
                found
            }
        };
        match mode {
            Mode::Single => findings.extend(of_node),
            Mode::Sentinel | Mode::Cluster => findings.extend(of_node.into_iter().map(|finding| {
                let message = format!("{}: {}", node.link.place(), finding.message);
                Finding::new(finding.severity, finding.code, message, finding.help)
            })),
        }
    }
    let nobody_was_asked = refused.len() == nodes.len();
    match refused.into_iter().next() {
        Some(why) if nobody_was_asked => Err(why),
        _ => Ok(findings),
    }
}

async fn look_at_server(
    node: &PrimaryNode,
    mode: Mode,
    replicas: Option<Replicas>,
    keys: &LockKeys,
) -> Result<Vec<Finding>> {
    let PrimaryNode { link, channel } = node;
    let mut findings = look_at(link).await?;
    // The rights are looked at before the slot: those to any key can be asked of any node.
    findings.extend(rights::missing(link, mode, keys, channel).await);
    if let Some(replicas) = replicas {
        findings.extend(of_replicas(node, replicas).await?);
    }
    Ok(findings)
}

/// The identity and the settings of the server. Errors as of [`check`].
pub(crate) async fn look_at(link: &Link) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    match denied_apart(link.facts().await)? {
        Ok(facts) => of_server(&facts, &mut findings),
        Err(why) => findings.push(unseen("who the server is", &why)),
    }
    let mut question = redis::cmd("CONFIG");
    question.arg("GET").arg(&[EVICTION, APPEND_ONLY, SYNC]);
    let answer = link.command(&question).await.and_then(reply::settings);
    match denied_apart(answer)? {
        Ok(settings) => of_settings(&settings, &mut findings),
        Err(why) => findings.push(unseen("the settings of the server", &why)),
    }
    findings.extend(link.shows_password().then(Finding::clear_text));
    findings.extend(of_addresses(&link.addresses().await));
    Ok(findings)
}

/// Two addresses of one family may be two servers; an IPv4 and an IPv6 address are as a rule one host.
fn of_addresses(addresses: &[IpAddr]) -> Option<Finding> {
    let (v4, v6): (HashSet<&IpAddr>, HashSet<&IpAddr>) =
        addresses.iter().partition(|address| address.is_ipv4());
    let count = v4.len().max(v6.len());
    let what =
        format!("the host name leads to {count} addresses: two processes may lock on different servers");
    let help = "use the address of one server, or a URL of Sentinels, a cluster or redlock://";
    (count > 1).then(|| Finding::new(Severity::Warning, "W_ADDRESSES", what, help))
}

/// Whether there are as many replicas as are waited for.
async fn of_replicas(node: &PrimaryNode, replicas: Replicas) -> Result<Option<Finding>> {
    let what = match node.link.count_replicas(replicas).await.map_err(unknown_is_unavailable)? {
        Confirmed::Yes => return Ok(None),
        Confirmed::By(count) => format!(
            "{count} replicas follow the server, and wait_replicas asks for {}: no lock is granted",
            replicas.count
        ),
        Confirmed::Unasked(why) => return Ok(Some(unusable(&why))),
    };
    let help = "look at the replicas: INFO replication; or lower wait_replicas in the URL";
    Ok(Some(Finding::new(Severity::Error, "E_REPLICAS", what, help)))
}

/// A node that lets nobody in, or that is none for locks, beside others that do; or one that does not count its replicas.
fn unusable(why: &Error) -> Finding {
    let code = if why.kind() == ErrorKind::Denied { "E_DENIED" } else { "E_SERVER" };
    Finding::new(Severity::Error, code, why.to_string(), why.help().unwrap_or_default())
}

fn of_server(facts: &ServerFacts, findings: &mut Vec<Finding>) {
    let what = format!("the server is {} {}, {}, {}", facts.flavour, facts.version, facts.mode, facts.role);
    findings.push(Finding::new(Severity::Info, "I_SERVER", what, ""));
    if facts.role == "replica" || facts.role == "slave" {
        findings.push(Finding::new(
            Severity::Error,
            "E_REPLICA",
            "the server is a replica, and takes no writes",
            "connect to the primary, or use the URL of its Sentinels, redis+sentinel://host:26379/name",
        ));
    }
}

fn of_settings(settings: &HashMap<String, String>, findings: &mut Vec<Finding>) {
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

fn unknown_is_unavailable(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Indeterminate => error.with_kind(ErrorKind::Unavailable),
        _ => error,
    }
}

fn unseen(what: &str, why: &Error) -> Finding {
    let help = why.help().unwrap_or_default();
    Finding::new(Severity::Info, "I_NOT_SEEN", format!("cannot see {what}: {why}"), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_addresses_of_one_family_are_warned_of() {
        let warned = |addresses: &[&str]| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            of_addresses(&addresses).is_some()
        };
        assert!(!warned(&[]) && !warned(&["127.0.0.1", "::1"]) && !warned(&["10.0.0.1", "10.0.0.1"]));
        assert!(warned(&["10.0.0.1", "10.0.0.2"]) && warned(&["10.0.0.1", "fd00::1", "fd00::2"]));
    }
}
