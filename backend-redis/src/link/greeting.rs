//! The first words on a connection: who we are, which protocol and database we want; and who the server says it is.
//!
//! In one request, `HELLO` first. It needs no permission, and its reply tells what would otherwise be found out late
//! or not at all: the version, a Sentinel, a cluster. Its refusals are never repeated word by word: a proxy that does
//! not know `HELLO` answers with its arguments, and the password is one of them.

use crate::refusal::{self, known_refusal};
use crate::reply::text;
use crate::target::{Protocol, Target};
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::Secret;
use redis::{Cmd, Value};
use secrecy::{ExposeSecret, SecretString};

/// Under this name the server lists our connections (`CLIENT LIST`).
const CLIENT_NAME: &str = "leasehold";
/// The user of a connection that names none.
const DEFAULT_USER: &str = "default";
/// The first versions whose commands suffice: `SET` with `NX` and `GET`, and `PEXPIRE` with `GT`.
const OLDEST: (u32, u32) = (7, 0);

/// What is said to one target.
#[derive(Debug)]
pub(super) struct Greeting<'a> {
    target: &'a Target,
    /// The password as it is now.
    password: Option<SecretString>,
}

impl<'a> Greeting<'a> {
    pub(super) fn new(target: &'a Target) -> Result<Self> {
        let password = target.login.as_ref().and_then(|login| login.password.as_ref());
        Ok(Self { target, password: password.map(Secret::read).transpose()? })
    }

    /// The greeting itself.
    pub(super) fn hello(&self) -> Vec<Cmd> {
        let version = match self.target.protocol {
            Some(Protocol::Resp2) => 2,
            Some(Protocol::Resp3) | None => 3,
        };
        let mut hello = redis::cmd("HELLO");
        hello.arg(version);
        if let Some((user, password)) = self.login() {
            hello.arg("AUTH").arg(user).arg(password);
        }
        hello.arg("SETNAME").arg(CLIENT_NAME);
        [Some(hello), self.select()].into_iter().flatten().collect()
    }

    /// True if a server that knows the greeting sends messages between replies afterwards.
    pub(super) fn asks_for_messages(&self) -> bool {
        self.target.protocol != Some(Protocol::Resp2)
    }

    /// True if the server does not know the greeting.
    pub(super) fn is_unknown(&self, replies: &[Value]) -> bool {
        match replies.first() {
            Some(Value::ServerError(error)) => {
                error.code() == "NOPROTO" || refusal::is_unknown_command(error)
            }
            _ => false,
        }
    }

    /// What is said instead to a server that does not know the greeting; at last, the question who it is, which it need not
    /// answer.
    pub(super) fn without_hello(&self) -> Result<Vec<Cmd>> {
        if self.target.protocol == Some(Protocol::Resp3) {
            let message = "it does not know HELLO, so protocol=resp3 cannot be had";
            return Err(Error::new(ErrorKind::Misconfigured, message).with_help("leave the protocol out"));
        }
        let login = self.login().map(|(user, password)| redis::cmd("AUTH").arg(user).arg(password).take());
        let who = redis::cmd("INFO").arg("server").take();
        Ok([login, self.select(), Some(who)].into_iter().flatten().collect())
    }

    fn login(&self) -> Option<(&str, &str)> {
        let user = self.target.login.as_ref()?.user.as_deref().unwrap_or(DEFAULT_USER);
        Some((user, self.password.as_ref().map_or("", ExposeSecret::expose_secret)))
    }

    fn select(&self) -> Option<Cmd> {
        let database = self.target.database;
        (database != 0).then(|| redis::cmd("SELECT").arg(database).take())
    }
}

/// The command that asks the server who it is, later on.
pub(super) fn question() -> Cmd {
    redis::cmd("HELLO")
}

/// What the replies to a greeting tell.
pub(super) fn facts(replies: &[Value]) -> Result<ServerFacts> {
    for reply in replies {
        if let Value::ServerError(error) = reply {
            return Err(known_refusal(error, None).unwrap_or_else(not_repeated));
        }
    }
    Ok(replies.first().map(ServerFacts::read).unwrap_or_default())
}

/// A refusal that nobody knows. Not even its first word is repeated: of a stranger's text, that may be anything.
fn not_repeated() -> Error {
    let message = "it refused the login for a reason that is not known here";
    Error::new(ErrorKind::Unavailable, message).with_help("look at the server, and at what stands between")
}

/// What a server says of itself. Empty as far as it says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFacts {
    /// `redis`, `valkey`.
    pub(crate) flavour: String,
    pub(crate) version: String,
    /// `standalone`, `sentinel`, `cluster`.
    pub(crate) mode: String,
    /// `master`, `replica`.
    pub(crate) role: String,
}

impl ServerFacts {
    /// Reads the reply to `HELLO`: a map, or in the older protocol a list.
    pub(crate) fn read(reply: &Value) -> Self {
        let mut facts = Self::default();
        let mut enter = |key: &Value, value: &Value| {
            let field = match text(key).as_deref() {
                Some("server") => &mut facts.flavour,
                Some("version") => &mut facts.version,
                Some("mode") => &mut facts.mode,
                Some("role") => &mut facts.role,
                _ => return,
            };
            *field = text(value).unwrap_or_default();
        };
        match reply {
            Value::Map(pairs) => pairs.iter().for_each(|(key, value)| enter(key, value)),
            Value::Array(list) => list.chunks_exact(2).for_each(|pair| enter(&pair[0], &pair[1])),
            _ => {}
        }
        facts
    }

    /// Reads the reply to `INFO`, of a server that is too old for `HELLO`. One that tells nothing is a proxy's, or no right.
    pub(crate) fn read_info(reply: &Value) -> Self {
        let text = text(reply).unwrap_or_default();
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap_or_default().trim().to_owned()
        };
        let (version, mode) = (field("redis_version"), field("redis_mode"));
        Self { flavour: "redis".to_owned(), version, mode, ..Self::default() }
    }

    /// Refuses what has no data, and what is too old.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_sentinel() {
            let message = "it is a Sentinel: it knows who has the data, and has none";
            return Err(Error::new(ErrorKind::Misconfigured, message)
                .with_help("use the URL of a Sentinel group, redis+sentinel://host:26379/name, or the address of the primary"));
        }
        match self.release() {
            Some(release) if release < OLDEST => Err(self.too_old()),
            _ => Ok(()),
        }
    }

    pub(super) fn is_sentinel(&self) -> bool {
        self.mode == "sentinel"
    }

    /// The first two numbers of the version.
    fn release(&self) -> Option<(u32, u32)> {
        let mut numbers = self.version.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    fn too_old(&self) -> Error {
        let message =
            format!("it is {} {}, which lacks commands that locks need", self.flavour, self.version);
        Error::new(ErrorKind::Misconfigured, message)
            .with_help("use Redis 7.0 or later, or Valkey 7.2 or later")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(version: &str) -> ServerFacts {
        let words =
            ["server", "valkey", "version", version, "proto", "2", "mode", "standalone", "role", "master"];
        let words = words.map(|word| Value::BulkString(word.into()));
        ServerFacts::read(&Value::Array(words.into()))
    }

    #[test]
    fn the_older_protocol_tells_as_much() {
        let facts = facts("8.0.1");
        assert_eq!((&*facts.flavour, &*facts.version), ("valkey", "8.0.1"));
        assert_eq!((&*facts.mode, &*facts.role), ("standalone", "master"));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for new in ["7.0.0", "7.2.4", "8.0.1", "10.0.0", "255.255.255", "unstable", ""] {
            assert!(facts(new).check().is_ok(), "{new}");
        }
        for old in ["6.2.14", "5.0", "6.9.99"] {
            assert!(facts(old).check().is_err(), "{old}");
        }
    }

    #[test]
    fn what_is_no_answer_tells_nothing() {
        for reply in [Value::Okay, Value::Nil, Value::Array(vec![Value::Int(1)])] {
            assert_eq!(ServerFacts::read(&reply).version, "");
        }
    }
}
