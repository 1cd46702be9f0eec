//! Findings about an ensemble: settings, access lists and versions that weaken the promises, and a trial lock.

use crate::ZooKeeperBackend;
use crate::acl::{Access, is_open};
use crate::addresses::check_addresses;
use crate::four_letter_words;
use crate::session::{SessionCall, ZkError, ZkResult};
use futures_util::future::try_join_all;
use leasehold_core::trial::try_queue;
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use std::collections::BTreeMap;
use std::time::Duration;

const WORD_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_DIRECTORIES: usize = 256;
/// A session of fewer ticks is ended by the first pause of a server.
const MIN_TICKS: u32 = 4;

/// Looks at session, access lists and servers, and tries a lock. A value that cannot be seen is a finding, and no failure. Fails
/// if there is no session.
pub(crate) async fn check(backend: &ZooKeeperBackend) -> Result<Vec<Finding>> {
    let call = backend.sessions.call().await?;
    let target = &backend.sessions.target;
    let mut findings = Vec::new();
    let (requested, granted) = (target.timeouts.session, call.session().timeout);
    if requested != granted {
        let what = format!(
            "a session_timeout of {requested:?} was asked for and {granted:?} given: that is how long a crashed holder keeps others out"
        );
        let help = "ask for a time within minSessionTimeout and maxSessionTimeout of the servers, by default 2 to 20 ticks";
        findings.push(Finding::new(Severity::Warning, "W_SESSION_BOUNDS", what, help));
    }
    check_access(&call, backend, &mut findings).await?;
    if target.login.is_some() && target.tls.is_none() {
        findings.push(Finding::clear_text());
    }
    if target.tls.is_some() {
        let what =
            "versions and ticks of the servers were not seen: a port with TLS answers no four-letter words";
        let help = "look at them on a port without TLS";
        findings.push(Finding::new(Severity::Info, "I_NOT_SEEN", what, help));
    } else {
        for server in target.servers.each() {
            check_server(server, granted, &mut findings).await;
        }
    }
    findings.extend(try_queue(backend).await?);
    findings.extend(check_addresses(target).await);
    Ok(findings)
}

/// The right to free a lock is a right to its own directory, and the right to make one is a right to the directory of all.
async fn check_access(
    call: &SessionCall,
    backend: &ZooKeeperBackend,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let base = &backend.names.base;
    match call.access(base).await {
        Ok(Some(acls)) => {
            let open = open_locks(call, backend).await?;
            let what = match open.as_slice() {
                _ if acls.iter().any(is_open) => {
                    format!("make and delete the directories of locks in {base}")
                }
                [] => return Ok(()),
                [one] => format!("delete locks in {one}"),
                [one, more @ ..] => format!("delete locks in {one} and {} more in {base}", more.len()),
            };
            let what = format!("anyone who reaches the servers can {what}");
            let help = match backend.sessions.target.access {
                Access::Anyone => {
                    "name a user in the URL, before the directory is made: zk://user:password@host"
                }
                Access::Creator => "close it with setAcl -R, or use another directory",
            };
            findings.push(Finding::new(Severity::Warning, "W_OPEN_ACL", what, help));
        }
        Ok(None) => {
            let what = format!("{base} did not exist: the trial lock makes it, as the first lock would");
            let help = "use init to make it with other rights";
            findings.push(Finding::new(Severity::Info, "I_NO_DIRECTORY", what, help));
        }
        Err(error) => {
            let error = error.into_read_error();
            if error.kind() != ErrorKind::Denied {
                return Err(error);
            }
            let message = format!("cannot see the access list of {base}: {error}");
            let help = error.help().unwrap_or_default();
            findings.push(Finding::new(Severity::Info, "I_NOT_SEEN", message, help));
        }
    }
    Ok(())
}

/// The directories of locks in which every client may change something, among the first [`MAX_DIRECTORIES`]. A directory that this
/// user may not see is left out.
async fn open_locks(call: &SessionCall, backend: &ZooKeeperBackend) -> Result<Vec<String>> {
    let mut locks = if_allowed(call.sync_and_list(&backend.names.base).await)?;
    locks.retain(|segment| backend.names.name(segment).is_some());
    locks.sort_unstable();
    locks.truncate(MAX_DIRECTORIES);
    let checks = locks.into_iter().map(|segment| async move {
        let path = format!("{}/{segment}", backend.names.base);
        let acls = if_allowed(call.access(&path).await)?.unwrap_or_default();
        Ok::<_, Error>(acls.iter().any(is_open).then_some(path))
    });
    Ok(try_join_all(checks).await?.into_iter().flatten().collect())
}

fn if_allowed<T: Default>(answer: ZkResult<T>) -> Result<T> {
    match answer.map_err(ZkError::into_read_error) {
        Err(error) if error.kind() == ErrorKind::Denied => Ok(T::default()),
        answer => answer,
    }
}

async fn check_server(server: (&str, u16), session: Duration, findings: &mut Vec<Finding>) {
    let at = format!("{}:{}", server.0, server.1);
    match four_letter_words::ask(server, "srvr", WORD_TIMEOUT).await {
        Ok(Some(values)) => check_version(&at, &values, findings),
        Ok(None) => findings.push(not_allowed(&at, "srvr")),
        Err(error) => {
            let what = format!("{at} does not answer: {error}");
            let help = "start it: every server that is down is one that may not fail any more";
            return findings.push(Finding::new(Severity::Warning, "W_SERVER_DOWN", what, help));
        }
    }
    match four_letter_words::ask(server, "conf", WORD_TIMEOUT).await {
        Ok(Some(values)) => check_tick(&at, &values, session, findings),
        Ok(None) | Err(_) => findings.push(not_allowed(&at, "conf")),
    }
}

fn check_version(at: &str, values: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    let Some(version) = values.get("Zookeeper version") else {
        let what = format!("{at} serves no requests now: it has no leader, or is no ZooKeeper");
        findings.push(Finding::new(Severity::Warning, "W_SERVER_DOWN", what, "look at its log"));
        return;
    };
    let version = version.split(['-', ',']).next().unwrap_or_default();
    let what =
        format!("{at} is ZooKeeper {version}, {}", values.get("Mode").map_or("unknown", String::as_str));
    findings.push(Finding::new(Severity::Info, "I_SERVER", what, ""));
}

fn check_tick(at: &str, values: &BTreeMap<String, String>, session: Duration, findings: &mut Vec<Finding>) {
    let tick = values.get("tickTime").and_then(|tick| tick.parse().ok()).map(Duration::from_millis);
    if let Some(tick) = tick.filter(|tick| session < *tick * MIN_TICKS) {
        let what = format!("a session of {session:?} is short for {at}, which counts in ticks of {tick:?}");
        let help = "lengthen session_timeout, or shorten tickTime";
        findings.push(Finding::new(Severity::Warning, "W_SHORT_SESSION", what, help));
    }
}

fn not_allowed(at: &str, word: &str) -> Finding {
    let what = format!("{at} does not answer {word:?}");
    let help = "allow it for this check: 4lw.commands.whitelist=srvr,conf";
    Finding::new(Severity::Info, "I_NOT_SEEN", what, help)
}
