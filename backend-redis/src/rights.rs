//! Which rights the user lacks: every command is asked for in a way that changes nothing, on a lock that is not in use.
//!
//! The server looks at the rights before it looks at what is wanted. So what it would refuse for another reason, such as
//! a `SET` that is to find the key and not to find it, tells of the right as well.

use crate::check::because;
use crate::connection::Link;
use crate::keys::LockKeys;
use futures_util::future::join_all;
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use redis::Cmd;
use std::sync::Arc;

/// Commands without which there is no lock. The names of keys stand for the keys of a lock, `free` for one that does not exist.
const LOCK_COMMANDS: &[&str] = &[
    "EVALSHA 0000000000000000000000000000000000000000 0",
    "EVAL return 0",
    "SET lock nobody NX XX",
    "SET holder nobody NX XX",
    "SET token nobody NX XX",
    "GET lock",
    "DEL free",
    "PEXPIRE lock never",
    "PTTL lock",
    "TIME",
];

/// Beside those, on one server or a cluster, which keep a queue.
const QUEUE_COMMANDS: &[&str] = &[
    "EXISTS queue",
    "ZADD queue nobody nobody",
    "ZSCORE queue nobody",
    "ZRANGE queue 0 -1",
    "ZREM queue nobody",
    "HSET owners nobody empty nobody",
    "HGET owners nobody",
    "HDEL owners nobody",
];

/// Commands that administrators need, and what is not possible without them.
const ADMIN_COMMANDS: [(&str, &str); 3] = [
    ("SCAN 0 COUNT 1", "locks cannot be listed: "),
    ("TYPE lock", "of foreign data in the place of a lock, the kind cannot be told: "),
    ("PING", "`init` cannot find out whether the server answers: "),
];

/// One finding for each right that is missing.
pub(crate) async fn missing(link: &Arc<Link>, is_cluster: bool, keys: &LockKeys) -> Vec<Finding> {
    let mut lacking = refused(link, keys, &[LOCK_COMMANDS, QUEUE_COMMANDS].concat()).await;
    if is_cluster {
        // Needed only while a slot moves, by all holders in it.
        lacking.extend(denied(link.may_ask().await));
    }
    let mut findings: Vec<Finding> = lacking.iter().map(no_lock).collect();
    let publish = link.command(redis::cmd("PUBLISH").arg(&link.channel).arg("")).await;
    findings.extend(denied(publish).map(|why| unheard(&why.to_string(), why.help().unwrap_or_default())));
    if link.lacks_messages() {
        let help = "let what stands between pass HELLO 3 on, or leave protocol=resp2 out of the URL";
        findings.push(unheard("the connection speaks RESP2, in which the server sends no messages", help));
    } else if !link.listen().await {
        let help = "grant it with ACL SETUSER: +subscribe, and for the default prefix &leasehold:*";
        findings.push(unheard("this user may not run SUBSCRIBE on the channel of its waiters", help));
    }
    findings.extend(missing_admin_rights(link, keys).await);
    findings
}

/// The same for a node of Redlock, which keeps no queue.
pub(crate) async fn missing_on_node(link: &Arc<Link>, keys: &LockKeys) -> Vec<Finding> {
    let mut findings: Vec<Finding> = refused(link, keys, LOCK_COMMANDS).await.iter().map(no_lock).collect();
    findings.extend(missing_admin_rights(link, keys).await);
    findings
}

async fn missing_admin_rights(link: &Arc<Link>, keys: &LockKeys) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, what) in ADMIN_COMMANDS {
        let lacking = refused(link, keys, &[line]).await;
        findings.extend(lacking.iter().map(|why| because(Severity::Warning, "W_DENIED", what, why)));
    }
    findings
}

async fn refused(link: &Arc<Link>, keys: &LockKeys, lines: &[&str]) -> Vec<Error> {
    let answers = join_all(lines.iter().map(async |line| link.command(&command(line, keys)).await)).await;
    let mut lacking: Vec<Error> = answers.into_iter().filter_map(denied).collect();
    // A right that several of them want is named once.
    lacking.dedup_by_key(|error| error.to_string());
    lacking
}

fn command(line: &str, keys: &LockKeys) -> Cmd {
    let [lock, holder, owners, token, queue, _] = keys.all();
    let mut command = Cmd::new();
    for word in line.split(' ') {
        match word {
            "lock" => command.arg(lock),
            "holder" => command.arg(holder),
            "owners" => command.arg(owners),
            "token" => command.arg(token),
            "queue" => command.arg(queue),
            "free" => command.arg(format!("{token}:free")),
            word => command.arg(word),
        };
    }
    command
}

fn denied<T>(answer: Result<T>) -> Option<Error> {
    answer.err().filter(|error| error.kind() == ErrorKind::Denied)
}

fn no_lock(why: &Error) -> Finding {
    because(Severity::Error, "E_DENIED", "", why)
}

/// Waiters of this process get no messages.
pub(crate) fn unheard(why: &str, help: &str) -> Finding {
    let message = format!("waiters are not told that a lock is theirs, and ask every half second: {why}");
    Finding::new(Severity::Warning, "W_UNHEARD", message, help)
}
