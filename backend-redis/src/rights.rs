//! Which rights the user lacks: every command is asked for in a way that changes nothing, on a lock that is not in use.
//!
//! The server looks at the rights before it looks at what is wanted. So what it would refuse for another reason, such as
//! a `SET` that is to find the key and not to find it, tells of the right as well.

use crate::connection::ServerLink;
use crate::keys::LockKeys;
use futures_util::future::join_all;
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use redis::Cmd;

/// Commands, and what is not possible without them: nothing is, if that is empty. The kinds of keys stand for those of the lock.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("EVALSHA 0000000000000000000000000000000000000000 0", ""),
    ("EVAL return 0", ""),
    ("SET lock nobody NX XX", ""),
    ("SET holder nobody NX XX", ""),
    ("SET token nobody NX XX", ""),
    ("GET lock", ""),
    ("DEL lock", ""),
    ("PEXPIRE lock never", ""),
    ("PTTL lock", ""),
    ("TIME", ""),
    ("SCAN 0 COUNT 1", "locks cannot be listed: "),
    ("TYPE lock", "of foreign data in the place of a lock, the kind cannot be told: "),
    ("PING", "`init` cannot find out whether the server answers: "),
];

/// Beside those, on one server or a cluster, which keep a queue.
const QUEUE_COMMANDS: &[(&str, &str)] = &[
    ("EXISTS queue", ""),
    ("ZADD queue nobody nobody", ""),
    ("ZSCORE queue nobody", ""),
    ("ZRANGE queue 0 -1", ""),
    ("ZREM queue nobody", ""),
    ("HSET owners nobody empty nobody", ""),
    ("HGET owners nobody", ""),
    ("HDEL owners nobody", ""),
];

pub(crate) async fn missing(link: &ServerLink, is_cluster: bool, keys: &LockKeys) -> Vec<Finding> {
    let mut findings = refused(link, keys, &[QUEUE_COMMANDS, COMMANDS].concat()).await;
    if is_cluster {
        // Needed only while a slot moves, by all holders in it.
        findings.extend(
            denied(link.may_ask().await).map(|why| error_finding(Severity::Error, "E_DENIED", "", &why)),
        );
    }
    let publish = link.command(redis::cmd("PUBLISH").arg(&link.channel).arg("")).await;
    findings.extend(denied(publish).iter().chain(&link.listen().await.err()).map(unheard));
    findings.dedup();
    findings
}

/// One finding for each of these commands that the user may not run.
pub(crate) async fn refused(link: &ServerLink, keys: &LockKeys, commands: &[(&str, &str)]) -> Vec<Finding> {
    let answers = join_all(commands.iter().map(async |(line, effect)| {
        let why = denied(link.command(&command(line, keys)).await)?;
        Some(match *effect {
            "" => error_finding(Severity::Error, "E_DENIED", "", &why),
            effect => error_finding(Severity::Warning, "W_DENIED", effect, &why),
        })
    }));
    let mut findings: Vec<Finding> = answers.await.into_iter().flatten().collect();
    // A right that several of them want is named once.
    findings.dedup_by(|one, other| one.message == other.message);
    findings
}

/// A finding whose message and help are those of an error. The message begins with `effect`.
pub(crate) fn error_finding(severity: Severity, code: &'static str, effect: &str, why: &Error) -> Finding {
    Finding::new(severity, code, format!("{effect}{why}"), why.help().unwrap_or_default())
}

pub(crate) fn unheard(why: &Error) -> Finding {
    let effect = "waiters are not told that a lock is theirs, and ask every half second: ";
    error_finding(Severity::Warning, "W_UNHEARD", effect, why)
}

fn command(line: &str, keys: &LockKeys) -> Cmd {
    let kinds = ["lock", "holder", "owners", "token", "queue"];
    let mut command = Cmd::new();
    for word in line.split(' ') {
        let key = kinds.iter().zip(keys.all()).find(|(kind, _)| **kind == word);
        command.arg(key.map_or(word, |(_, key)| key));
    }
    command
}

fn denied<T>(answer: Result<T>) -> Option<Error> {
    answer.err().filter(|error| error.kind() == ErrorKind::Denied)
}
