//! What about an ensemble would weaken the promises.

use crate::ZooKeeperBackend;
use crate::acl::{Access, is_open};
use crate::parents::parent;
use crate::session::{Trouble, Turn};
use crate::words::{self, Said};
use futures_util::future::try_join_all;
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use std::collections::BTreeMap;
use std::time::Duration;
use zookeeper_client::Acl;

/// How long a server may take to answer a word.
const WORD: Duration = Duration::from_secs(1);
/// How many directories of locks are looked at.
const LOOKED_AT: usize = 256;
/// A session of fewer ticks is ended by the first pause of a server.
const TICKS: u32 = 4;
/// The first version with container nodes.
const OLDEST: [u32; 3] = [3, 5, 3];

/// Looks at session, access list and servers. What is not shown to us is said, and is no failure.
///
/// # Errors
///
/// As of any call, if there is no session.
pub(crate) async fn check(backend: &ZooKeeperBackend) -> Result<Vec<Finding>> {
    let turn = backend.sessions.turn().await?;
    let mut findings = Vec::new();
    check_session(backend.sessions.target().timeouts.session, turn.session().timeout(), &mut findings);
    check_access(&turn, backend, &mut findings).await?;
    check_rights(&turn, backend, &mut findings).await?;
    if backend.sessions.target().login.is_some() && backend.sessions.target().tls.is_none() {
        findings.push(Finding::clear_text());
    }
    if backend.sessions.target().tls.is_some() {
        findings.push(Finding::new(
            Severity::Info,
            "I_NOT_SEEN",
            "versions and ticks of the servers were not seen: a port with TLS answers no four-letter words",
            "look at them on a port without TLS",
        ));
        return Ok(findings);
    }
    for server in backend.sessions.target().servers.each() {
        check_server(server, turn.session().timeout(), &mut findings).await;
    }
    Ok(findings)
}

fn check_session(asked: Duration, given: Duration, findings: &mut Vec<Finding>) {
    if asked != given {
        findings.push(Finding::new(
            Severity::Warning,
            "W_SESSION_BOUNDS",
            format!("a session_timeout of {asked:?} was asked for and {given:?} given: that is how long a crashed holder keeps others out"),
            "ask for a time within minSessionTimeout and maxSessionTimeout of the servers, by default 2 to 20 ticks",
        ));
    }
}

/// To free a lock is a right to its own directory, and to make one is a right to that of all.
async fn check_access(turn: &Turn, backend: &ZooKeeperBackend, findings: &mut Vec<Finding>) -> Result<()> {
    let base = backend.names.base();
    match turn.access(base).await {
        Ok(acls) => {
            let open = open_locks(turn, backend).await?;
            let help = match backend.sessions.target().access {
                Access::Anyone => {
                    "name a user in the URL, before the directory is made: zk://user:password@host"
                }
                Access::Creator => "close it with setAcl -R, or use another directory",
            };
            let what = match (acls.iter().any(is_open), open.as_slice()) {
                (false, []) => return Ok(()),
                (true, []) => format!(
                    "anyone who reaches the servers can make and delete the directories of locks in {base}"
                ),
                (true, _) => format!("anyone who reaches the servers can delete locks in {base}"),
                (false, [one]) => format!("anyone who reaches the servers can delete locks in {one}"),
                (false, [one, more @ ..]) => format!(
                    "anyone who reaches the servers can delete locks in {one} and {} more in {base}",
                    more.len()
                ),
            };
            findings.push(Finding::new(Severity::Warning, "W_OPEN_ACL", what, help));
        }
        Err(Trouble::NoNode) => findings.push(Finding::new(
            Severity::Info,
            "I_NO_DIRECTORY",
            format!("{base} is not there yet"),
            "the first lock makes it, and so does init",
        )),
        Err(trouble) => {
            let error = trouble.of_read();
            if error.kind() != ErrorKind::Denied {
                return Err(error);
            }
            findings.push(unseen(&format!("the access list of {base}"), &error));
        }
    }
    Ok(())
}

/// Whoever may make no directories can lock names whose directory somebody else has made, and lets it in: no error, then.
async fn check_rights(turn: &Turn, backend: &ZooKeeperBackend, findings: &mut Vec<Finding>) -> Result<()> {
    let (base, access) = (backend.names.base(), backend.sessions.target().access);
    let mut directory = base;
    let may_make = loop {
        match turn.may_make_in(directory, access.of_directories()).await {
            Err(Trouble::NoNode) if !directory.is_empty() => directory = parent(directory),
            // A server may know no such request: no lock needs it.
            Err(Trouble::Unimplemented) => break true,
            may_make => break may_make.map_err(Trouble::of_read)?,
        }
    };
    if !may_make {
        let what = if directory == base {
            format!(
                "this user may not make the directory of a lock in {base}: a name that has none cannot be locked"
            )
        } else {
            format!("{base} is missing, and this user may not make it: nothing can be locked")
        };
        let help = "use the user that made it, or have its access list changed: setAcl -R";
        let help = if directory == base { help } else { "have init run by a user that may, or use that one" };
        findings.push(Finding::new(Severity::Warning, "W_DENIED", what, help));
    }
    Ok(())
}

/// The directories of locks that are there now in which everybody may change something, of the first [`LOOKED_AT`]. What
/// may not be seen by us is no worse for that.
async fn open_locks(turn: &Turn, backend: &ZooKeeperBackend) -> Result<Vec<String>> {
    let unseen = |trouble: Trouble| -> Result<Vec<Acl>> {
        match trouble {
            Trouble::NoNode => Ok(Vec::new()),
            trouble => match trouble.of_read() {
                error if error.kind() == ErrorKind::Denied => Ok(Vec::new()),
                error => Err(error),
            },
        }
    };
    let mut locks = match turn.list(backend.names.base()).await {
        Ok(children) => children,
        Err(trouble) => return unseen(trouble).map(|_| Vec::new()),
    };
    locks.retain(|segment| backend.names.name(segment).is_some());
    locks.sort_unstable();
    locks.truncate(LOOKED_AT);
    let looks = locks.into_iter().map(|segment| async move {
        let path = format!("{}/{segment}", backend.names.base());
        let acls = turn.access(&path).await.or_else(unseen)?;
        Ok::<_, Error>(acls.iter().any(is_open).then_some(path))
    });
    Ok(try_join_all(looks).await?.into_iter().flatten().collect())
}

async fn check_server(server: (&str, u16), session: Duration, findings: &mut Vec<Finding>) {
    let at = format!("{}:{}", server.0, server.1);
    match words::ask(server, "srvr", WORD).await {
        Ok(Said::This(facts)) => check_version(&at, &facts, findings),
        Ok(Said::NotAllowed) => findings.push(not_allowed(&at, "srvr")),
        Err(error) => {
            findings.push(Finding::new(
                Severity::Warning,
                "W_SERVER_DOWN",
                format!("{at} does not answer: {error}"),
                "start it: every server that is down is one that may not fail any more",
            ));
            return;
        }
    }
    match words::ask(server, "conf", WORD).await {
        Ok(Said::This(facts)) => check_tick(&at, &facts, session, findings),
        Ok(Said::NotAllowed) | Err(_) => findings.push(not_allowed(&at, "conf")),
    }
}

fn check_version(at: &str, facts: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    let Some(version) = facts.get("Zookeeper version") else {
        let what = format!("{at} serves no requests now: it has no leader, or is no ZooKeeper");
        findings.push(Finding::new(Severity::Warning, "W_SERVER_DOWN", what, "look at its log"));
        return;
    };
    let version = version.split(['-', ',']).next().unwrap_or_default();
    let mode = facts.get("Mode").map_or("unknown", String::as_str);
    findings.push(Finding::new(
        Severity::Info,
        "I_SERVER",
        format!("{at} is ZooKeeper {version}, {mode}"),
        "",
    ));
    let parts: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    if parts.as_slice() < OLDEST.as_slice() {
        findings.push(Finding::new(
            Severity::Warning,
            "W_NO_CONTAINERS",
            format!("{at} has no container nodes: the directory of a name stays if its last user crashes"),
            "use ZooKeeper 3.5.3 or later",
        ));
    }
}

fn check_tick(at: &str, facts: &BTreeMap<String, String>, session: Duration, findings: &mut Vec<Finding>) {
    let tick = facts.get("tickTime").and_then(|tick| tick.parse().ok()).map(Duration::from_millis);
    if let Some(tick) = tick.filter(|tick| session < *tick * TICKS) {
        findings.push(Finding::new(
            Severity::Warning,
            "W_SHORT_SESSION",
            format!("a session of {session:?} is short for {at}, which counts in ticks of {tick:?}"),
            "lengthen session_timeout, or shorten tickTime",
        ));
    }
}

fn not_allowed(at: &str, word: &str) -> Finding {
    Finding::new(
        Severity::Info,
        "I_NOT_SEEN",
        format!("{at} does not answer {word:?}"),
        "allow it for this check: 4lw.commands.whitelist=srvr,conf",
    )
}

fn unseen(what: &str, why: &Error) -> Finding {
    let help = why.help().unwrap_or_default();
    Finding::new(Severity::Info, "I_NOT_SEEN", format!("cannot see {what}: {why}"), help)
}
