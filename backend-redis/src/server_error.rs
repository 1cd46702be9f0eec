//! What the server's errors mean. All of them are here.
//!
//! An error that is known here is the server's word that nothing was done: scripts are written so (see
//! [`scripts`](crate::scripts)). An unknown error may come from a proxy, which tells nothing of the server,
//! so its outcome is unknown.

use crate::keys::companion_kind;
use crate::scripts::Script;
use leasehold_core::ErrorKind::{Denied, Misconfigured, Unavailable};
use leasehold_core::{Error, ErrorKind};
use redis::{Arg, Cmd, ServerError};

/// All commands that are sent, and that scripts run.
const COMMANDS: &str = "asking auth client client|setname cluster cluster|slots config config|get del eval evalsha exists get hdel hello hget \
    hset info pexpire ping pttl publish scan select sentinel sentinel|master set subscribe time type wait zadd zrange zrem zscore";

const REPLICA: &str = "it is a replica, and locks are granted by its primary alone";
const TO_PRIMARY: &str =
    "connect to the primary, or use the URL of its Sentinels, redis+sentinel://host:26379/name";
pub(crate) const TO_CLUSTER: &str = "use the URL of a cluster, redis+cluster://host:port";

/// An error whose meaning needs no second look: what tells it, its kind, message and help.
type ErrorRow = (&'static str, ErrorKind, &'static str, &'static str);

/// Errors that their first word tells.
#[rustfmt::skip]
const BY_CODE: &[ErrorRow] = &[
    ("BUSY", Unavailable, "it runs a long script or function, and answers nobody else",
        "wait for it, or end it with SCRIPT KILL or FUNCTION KILL"),
    ("LOADING", Unavailable, "it is loading its data", "wait until it is done"),
    ("OOM", Unavailable, "its memory is full, and it takes nothing new",
        "raise its maxmemory, or free some; locks that are held can be renewed and released meanwhile"),
    ("READONLY", Unavailable, REPLICA, TO_PRIMARY),
    ("MASTERDOWN", Unavailable, "it is a replica that has lost its primary", TO_PRIMARY),
    ("NOREPLICAS", Unavailable, "too few of its replicas follow it, and it takes no writes",
        "look at its replicas and at its min-replicas-to-write"),
    ("MISCONF", Unavailable, "it cannot write to its disk, and takes no writes until it can",
        "look at its log and its disk"),
    ("CLUSTERDOWN", Unavailable, "its cluster does not serve these keys now", "look at the cluster"),
    ("TRYAGAIN", Unavailable, "its cluster is moving these keys to another node", "try again soon"),
    ("MOVED", Misconfigured, "it is a node of a cluster, and these keys lie on another node", TO_CLUSTER),
    ("ASK", Misconfigured, "it is a node of a cluster, and these keys lie on another node", TO_CLUSTER),
    ("CROSSSLOT", Misconfigured, "it is a node of a cluster, and takes these keys for those of several slots",
        TO_CLUSTER),
    ("NOPROTO", Misconfigured, "it does not speak this protocol", "leave the protocol out"),
    ("NOAUTH", Denied, "it wants a password",
        "put one into the URL or, better, into a file that is named beside it"),
    ("WRONGPASS", Denied, "it does not accept this user with this password",
        "look at the user and the password"),
    ("DENIED", Denied, "it is in protected mode, and talks to its own host only",
        "set a password on the server"),
    ("WRONGTYPE", Misconfigured, "a key of this lock holds data of another program",
        "use another name or prefix"),
    ("TOKENS", Misconfigured, "the fencing tokens of this name are used up",
        "use another name; a clock far in the future may have used them up"),
];

/// Errors with the general code `ERR`, which their text tells.
#[rustfmt::skip]
const BY_TEXT: &[ErrorRow] = &[
    ("DB index is out of range", Misconfigured, "it has no database of this index",
        "look at the number at the end of the URL, and at the server's setting databases"),
    ("SELECT is not allowed in cluster mode", Misconfigured, "it is a node of a cluster, which has database 0 only",
        TO_CLUSTER),
    ("max number of clients reached", Unavailable, "it has as many clients as it takes",
        "raise its maxclients, or find out who holds the connections"),
    ("without any password configured", Denied, "it has no password for this user, and was given one",
        "take the password out of the URL, or set it on the server"),
    ("invalid password", Denied, "it does not accept this user with this password",
        "look at the user and the password"),
    ("no password is set", Denied, "it has no password for this user, and was given one",
        "take the password out of the URL, or set it on the server"),
];

/// The refusal of a replica, whether it takes writes or not.
pub(crate) fn replica() -> Error {
    Error::new(Unavailable, REPLICA).with_help(TO_PRIMARY)
}

/// What was sent, and is refused: a script, or the command of this name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    Script(&'a Script),
    Command(&'a str),
}

impl<'a> Request<'a> {
    pub(crate) fn of(command: &'a Cmd) -> Self {
        let Some(Arg::Simple(name)) = command.args_iter().next() else { return Self::Command("") };
        Self::Command(std::str::from_utf8(name).unwrap_or_default())
    }
}

pub(crate) fn refusal(error: &ServerError, sent: Request<'_>) -> Error {
    let text = error.details().unwrap_or_default();
    known_refusal(error.code(), text, sent).unwrap_or_else(|| unknown(error))
}

/// What an error reply means, if it is one that is known. Never repeats the reply.
pub(crate) fn known_refusal(code: &str, text: &str, sent: Request<'_>) -> Option<Error> {
    let row = |(_, kind, message, help): &ErrorRow| Error::new(*kind, *message).with_help(*help);
    match code {
        "NOPERM" => Some(not_permitted(text, sent)),
        // A right is missing for what a script does; said by Redis 7.0, and by later versions and Valkey.
        "ERR"
            if text.contains("user executing the script can't") || text.contains("ACL failure in script") =>
        {
            Some(not_permitted(text, sent))
        }
        "ERR" if is_unknown_command(Some(text)) => Some(unknown_command(text, sent)),
        "ERR" => BY_TEXT.iter().find(|(sign, ..)| text.contains(sign)).map(row),
        _ => BY_CODE.iter().find(|(sign, ..)| *sign == code).map(row),
    }
}

/// An error of a request that changes nothing: no outcome is unknown.
pub(crate) fn unknown_is_unavailable(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Indeterminate => error.with_kind(Unavailable),
        _ => error,
    }
}

/// The runtime on which a task was at it has ended.
pub(crate) fn shut_down(kind: ErrorKind, during: &str) -> Error {
    Error::new(kind, format!("the runtime was shut down {during}"))
        .with_help("ask again, on a runtime that lives as long as the answer takes")
}

/// True if the server, or a proxy, does not know the command.
pub(crate) fn is_unknown_command(text: Option<&str>) -> bool {
    let known = ["unknown command", "Unknown Redis command", "Unknown command"];
    text.is_some_and(|text| known.iter().any(|known| text.starts_with(known)))
}

/// A key of a lock holds what is not ours, of this kind if that is known. Other programs have locks at the lock key alone:
/// what is in a key beside it was written there as such.
pub(crate) fn foreign_data(key: &str, kind: Option<&str>) -> Error {
    let (message, help) = match kind {
        Some(kind) if companion_kind(key).is_some() => (
            format!("the key {key:?} holds a {kind}, and not what stands beside a lock"),
            "look who writes it, or delete it",
        ),
        Some("hash") => (
            format!(
                "the key {key:?} holds a hash, not a lock: Redisson owns this name, or another program with its layout"
            ),
            ANOTHER_NAME,
        ),
        Some(kind) => (format!("the key {key:?} holds a {kind}, not a lock"), ANOTHER_NAME),
        None => (format!("the key {key:?} or one beside it holds no lock"), ANOTHER_NAME),
    };
    Error::new(Misconfigured, message).with_help(help)
}

const ANOTHER_NAME: &str = "use another name or prefix, or delete the key if nobody needs it";

fn not_permitted(text: &str, sent: Request<'_>) -> Error {
    let is_about = |what| text.contains("access") && text.contains(what);
    match command_in(text, sent) {
        _ if is_about("channel") => {
            Error::new(Denied, "this user may not use the channel on which waiters are told")
                .with_help("grant it with ACL SETUSER; for the default prefix: &leasehold:*")
        }
        Some(command) if !is_about("key") => {
            let message = format!("this user may not run {}", command.to_uppercase().replace('|', " "));
            let help = format!("grant it with ACL SETUSER: +{}", command.to_lowercase());
            Error::new(Denied, message).with_help(help)
        }
        _ => Error::new(Denied, "this user may not use the keys of this lock")
            .with_help("grant them with ACL SETUSER; for the default prefix: ~leasehold:* ~{leasehold:*"),
    }
}

fn unknown_command(text: &str, sent: Request<'_>) -> Error {
    let command = command_in(text, sent).map(|command| command.to_uppercase().replace('|', " "));
    let command = command.as_deref().unwrap_or("a command that locks need");
    let help = match sent {
        Request::Script(_) => "use Redis 7.0, Valkey 7.2 or later; or look at rename-command",
        Request::Command(_) => "look at rename-command of the server, and at what stands between",
    };
    Error::new(Misconfigured, format!("it does not know {command}")).with_help(help)
}

/// An error that is not known here. Its text is repeated for the reader, but without owner ids: some errors repeat the
/// arguments of the command, and an owner id is what authorises a release.
fn unknown(error: &ServerError) -> Error {
    let text = error.details().unwrap_or_default();
    let text = format!("{} {text}", error.code());
    let message = format!("it answered with an error: {}", shorten_ids(text.trim_end()));
    Error::new(ErrorKind::Indeterminate, message).with_help("look at the server, and at what stands between")
}

/// The command that was refused: quoted in the text before the arguments, by the server or by a script of ours that passes on a
/// refusal; or that in the line of the script that failed; or the one that was sent. Only what we send is looked for.
fn command_in<'a>(text: &str, sent: Request<'a>) -> Option<&'a str> {
    let is_part =
        |part: &str, whole| part.split_once('|').is_some_and(|(it, _)| it.eq_ignore_ascii_case(whole));
    let mut words = text.split(['\'', '`']);
    let quoted =
        words.find_map(|word| COMMANDS.split(' ').find(|command| word.eq_ignore_ascii_case(command)));
    quoted.or_else(|| match sent {
        Request::Script(script) => failed_line(text, script),
        // Of CONFIG and its like, one part is sent.
        Request::Command(name) => COMMANDS.split(' ').find(|it| is_part(it, name)).or(Some(name)),
    })
}

/// The command in the line that the server says has failed: `…, on @user_script:7.`
fn failed_line(text: &str, script: &Script) -> Option<&'static str> {
    let (_, rest) = text.split_once("user_script:")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let command = script.command_in_line(digits.parse().ok()?)?;
    COMMANDS.split(' ').find(|known| command.eq_ignore_ascii_case(known))
}

/// Leaves of every run of 32 or more hexadecimal digits the first eight.
fn shorten_ids(text: &str) -> String {
    let is_other = |c: char| !c.is_ascii_hexdigit();
    let shortened = text.split_inclusive(is_other).map(|run| match run.trim_end_matches(is_other).len() {
        digits @ 32.. => [&run[..8], "…", &run[digits..]].concat(),
        _ => run.to_owned(),
    });
    shortened.collect()
}

#[cfg(test)]
mod tests;
