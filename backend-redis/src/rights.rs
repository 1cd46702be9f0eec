//! Which rights the user lacks: every command is asked for in a way that changes nothing, on a lock that nobody uses.
//!
//! The server looks at the rights before it looks at what is wanted. So what it would refuse for another reason, such as
//! a `SET` that is to find the key and not to find it, tells of the right as well.

use crate::backend::Mode;
use crate::connection::Link;
use crate::keys::LockKeys;
use futures_util::future::join_all;
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use redis::Cmd;

/// What is not to be found in any key.
const NOBODY: &str = "nobody";

/// One finding for each right that is missing. `channel` is one that the waiters of this client listen on.
pub(crate) async fn missing(link: &Link, mode: Mode, keys: &LockKeys, channel: &str) -> Vec<Finding> {
    let mut findings =
        missing_lock_rights(link, [holder_commands(keys), queue_commands(keys)].concat()).await;
    if mode == Mode::Cluster {
        // Missed by nobody before a slot moves, and by all holders in it then.
        findings.extend(denied(link.may_ask().await).map(|why| no_lock(&why)));
    }
    let telling = refused(link, vec![command(&["PUBLISH", channel, ""])]).await;
    findings.extend(telling.iter().map(|why| unheard(&why.to_string(), why.help().unwrap_or_default())));
    if link.lacks_messages() {
        let help = "let what stands between pass HELLO 3 on, or leave protocol=resp2 out of the URL";
        findings.push(unheard("the connection speaks RESP2, in which the server sends no messages", help));
    } else if !link.listen(channel).await {
        let help = "grant it with ACL SETUSER: +subscribe, and for the default prefix &leasehold:*";
        findings.push(unheard("this user may not run SUBSCRIBE on the channel of its waiters", help));
    }
    findings.extend(missing_admin_rights(link, keys).await);
    findings
}

/// The same for a node of several, where nobody stands in a queue.
pub(crate) async fn missing_on_node(link: &Link, keys: &LockKeys) -> Vec<Finding> {
    let mut findings = missing_lock_rights(link, holder_commands(keys)).await;
    findings.extend(missing_admin_rights(link, keys).await);
    findings
}

/// Those without which there is no lock.
async fn missing_lock_rights(link: &Link, commands: Vec<Cmd>) -> Vec<Finding> {
    refused(link, commands).await.iter().map(no_lock).collect()
}

/// Rights that administrators lack.
async fn missing_admin_rights(link: &Link, keys: &LockKeys) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (what, command) in admin_commands(keys) {
        let denied = refused(link, vec![command]).await;
        findings.extend(denied.iter().map(|why| finding(Severity::Warning, "W_DENIED", what, why)));
    }
    findings
}

/// Without one of these, there is no lock.
fn holder_commands(keys: &LockKeys) -> Vec<Cmd> {
    let [lock, holder, token] = keys.of_grant();
    let no_digest = "0".repeat(40);
    let free = &format!("{token}:{NOBODY}");
    [
        ["EVALSHA", &no_digest, "0"].as_slice(),
        &["EVAL", "return 1", "0"],
        &["SET", lock, NOBODY, "NX", "XX"],
        &["SET", holder, NOBODY, "NX", "XX"],
        &["SET", token, NOBODY, "NX", "XX"],
        &["GET", lock],
        &["DEL", free],
        &["PEXPIRE", lock, "never"],
        &["PTTL", lock],
        &["TIME"],
    ]
    .into_iter()
    .map(command)
    .collect()
}

/// Without one of these, there is no lock on one server or a cluster, beside those [for any lock](holder_commands).
fn queue_commands(keys: &LockKeys) -> Vec<Cmd> {
    let [_, _, owners, _, queue, _] = keys.all();
    [
        ["EXISTS", queue].as_slice(),
        &["ZADD", queue, NOBODY, NOBODY],
        &["ZSCORE", queue, NOBODY],
        &["ZRANGE", queue, "0", "-1"],
        &["ZREM", queue, NOBODY],
        &["HSET", owners, NOBODY, "", NOBODY],
        &["HGET", owners, NOBODY],
        &["HDEL", owners, NOBODY],
    ]
    .into_iter()
    .map(command)
    .collect()
}

/// What those lack who look after locks, and have no need of it to hold one.
fn admin_commands(keys: &LockKeys) -> [(&'static str, Cmd); 3] {
    [
        ("locks cannot be listed: ", command(&["SCAN", "0", "COUNT", "1"])),
        (
            "of foreign data in the place of a lock, the kind cannot be told: ",
            command(&["TYPE", keys.lock()]),
        ),
        ("`init` cannot find out whether the server answers: ", command(&["PING"])),
    ]
}

async fn refused(link: &Link, commands: Vec<Cmd>) -> Vec<Error> {
    let answers = join_all(commands.iter().map(|command| link.command(command))).await;
    let mut denied: Vec<Error> = answers.into_iter().filter_map(denied).collect();
    // A right that several of them want is named once.
    denied.dedup_by_key(|error| error.to_string());
    denied
}

fn denied<T>(answer: Result<T>) -> Option<Error> {
    answer.err().filter(|error| error.kind() == ErrorKind::Denied)
}

fn command(words: &[&str]) -> Cmd {
    redis::cmd(words[0]).arg(&words[1..]).take()
}

fn finding(severity: Severity, code: &'static str, what: &str, why: &Error) -> Finding {
    Finding::new(severity, code, format!("{what}{why}"), why.help().unwrap_or_default())
}

fn no_lock(why: &Error) -> Finding {
    finding(Severity::Error, "E_DENIED", "", why)
}

fn unheard(why: &str, help: &str) -> Finding {
    let message = format!("waiters are not told that a lock is theirs, and ask every half second: {why}");
    Finding::new(Severity::Warning, "W_UNHEARD", message, help)
}
