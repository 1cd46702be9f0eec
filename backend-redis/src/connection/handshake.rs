//! The first requests on a connection: who we are, which protocol and database we want; and who the server says it is.
//!
//! A server or proxy that does not know `HELLO 3` is asked again on a new connection, in RESP2 and so without messages.
//! Refusals are never repeated word by word: a proxy that does not know `HELLO` answers with its arguments, and the password is
//! one of them.

use super::multiplexed::{Connection, NoAnswer};
use super::stream;
use super::tls::refusal_by_peer;
use crate::reply::text;
use crate::server_error::{is_unknown_command, known_refusal};
use crate::target::{Protocol, Target};
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::Secret;
use redis::{Cmd, RedisError, Value};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Under this name the server lists our connections (`CLIENT LIST`).
const CLIENT_NAME: &str = "leasehold";
/// The user of a connection that names none.
const DEFAULT_USER: &str = "default";
/// The first versions whose commands suffice: `SET` with `NX` and `GET`, and `PEXPIRE` with `GT`.
const OLDEST: (u32, u32) = (7, 0);

/// Makes a connection that is ready for requests. The deadline covers all steps, and an error names its step.
///
/// # Errors
///
/// Never [`Indeterminate`](ErrorKind::Indeterminate): no request changed anything.
pub(super) async fn connect(
    target: &Target,
    waiters: &Arc<WaiterRegistry>,
    deadline: Instant,
) -> Result<(Connection, ServerFacts)> {
    // Read for each connection, because it may be rotated.
    let password = target.login.as_ref().and_then(|login| login.password.as_ref());
    let handshake =
        Handshake { target, password: password.map(Secret::read).transpose()?, waiters, deadline };
    if target.protocol != Some(Protocol::Resp2) {
        match handshake.resp3().await? {
            Some(made) => return Ok(made),
            None if target.protocol == Some(Protocol::Resp3) => return Err(no_resp3()),
            None => {}
        }
    }
    handshake.resp2().await
}

/// What is said to one target.
struct Handshake<'a> {
    target: &'a Target,
    password: Option<SecretString>,
    waiters: &'a Arc<WaiterRegistry>,
    deadline: Instant,
}

impl Handshake<'_> {
    /// None if `HELLO 3` is not known at the other end.
    async fn resp3(&self) -> Result<Option<(Connection, ServerFacts)>> {
        let connection = match self.open(Protocol::Resp3).await? {
            Err(NoAnswer::Broken(error)) if is_unknown_hello(&error) => return Ok(None),
            opened => opened.map_err(refused)?,
        };
        // redis-rs keeps the answer to its own `HELLO` to itself.
        let hello = redis::cmd("HELLO").arg(3).arg("SETNAME").arg(CLIENT_NAME).take();
        let replies = self.request(&connection, [Some(hello), self.select()]).await?;
        check(&replies)?;
        Ok(Some((connection, replies.first().map(ServerFacts::read).unwrap_or_default())))
    }

    async fn resp2(&self) -> Result<(Connection, ServerFacts)> {
        let connection = self.open(Protocol::Resp2).await?.map_err(refused)?;
        let mut hello = redis::cmd("HELLO");
        hello.arg(2);
        if let Some((user, password)) = self.login() {
            hello.arg("AUTH").arg(user).arg(password);
        }
        hello.arg("SETNAME").arg(CLIENT_NAME);
        let replies = self.request(&connection, [Some(hello), self.select()]).await?;
        if !matches!(replies.first(), Some(Value::ServerError(error)) if is_unknown_command(error.details()))
        {
            check(&replies)?;
            return Ok((connection, replies.first().map(ServerFacts::read).unwrap_or_default()));
        }
        // A proxy, or an old server: the older way to log in, and a question that it need not answer.
        let login = self.login().map(|(user, password)| redis::cmd("AUTH").arg(user).arg(password).take());
        check(&self.request(&connection, [login, self.select()]).await?)?;
        let info = self.request(&connection, [Some(redis::cmd("INFO").arg("server").take()), None]).await?;
        Ok((connection, info.first().map(ServerFacts::read_info).unwrap_or_default()))
    }

    async fn open(&self, protocol: Protocol) -> Result<Result<Connection, NoAnswer>> {
        let Self { target, password, waiters, deadline } = self;
        let stream = stream::open(target, *deadline).await?;
        let made = Connection::over(stream, target, protocol, password.as_ref(), waiters);
        Ok(timeout_at(*deadline, made).await.unwrap_or_else(|_| Err(self.late())))
    }

    async fn request(&self, connection: &Connection, commands: [Option<Cmd>; 2]) -> Result<Vec<Value>> {
        let commands: Vec<Cmd> = commands.into_iter().flatten().collect();
        let replies = timeout_at(self.deadline, connection.request_all(&commands)).await;
        replies.unwrap_or_else(|_| Err(self.late())).map_err(refused)
    }

    fn login(&self) -> Option<(&str, &str)> {
        let user = self.target.login.as_ref()?.user.as_deref().unwrap_or(DEFAULT_USER);
        Some((user, self.password.as_ref().map_or("", ExposeSecret::expose_secret)))
    }

    fn select(&self) -> Option<Cmd> {
        let database = self.target.database;
        (database != 0).then(|| redis::cmd("SELECT").arg(database).take())
    }

    fn late(&self) -> NoAnswer {
        NoAnswer::Overdue(self.target.timeouts.connect)
    }
}

/// The command that asks the server who it is, later on.
pub(super) fn question() -> Cmd {
    redis::cmd("HELLO")
}

/// The first refusal among the replies.
fn check(replies: &[Value]) -> Result<()> {
    let refusal = replies.iter().find_map(|reply| match reply {
        Value::ServerError(error) => Some(error),
        _ => None,
    });
    refusal.map_or(Ok(()), |error| Err(refusal_of(error.code(), error.details().unwrap_or_default())))
}

fn refusal_of(code: &str, text: &str) -> Error {
    known_refusal(code, text, None).unwrap_or_else(|| {
        // Not even its first word is repeated: of a stranger's text, that may be anything.
        let message = "it refused the login for a reason that is not known here";
        Error::new(ErrorKind::Unavailable, message)
            .with_help("look at the server, and at what stands between")
    })
}

fn is_unknown_hello(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || is_unknown_command(error.detail())
}

/// There is no connection.
pub(super) fn refused(why: NoAnswer) -> Error {
    match why {
        NoAnswer::Overdue(timeout) => {
            let message = format!("it accepted a connection, but did not answer within {timeout:?}");
            Error::new(ErrorKind::Unavailable, message)
                .with_help("look at the server; if the port takes only TLS, write rediss://")
        }
        NoAnswer::Broken(error) if error.kind() == redis::ErrorKind::Parse => {
            // Without its cause: a stranger's text need not be repeated.
            let message = "what answers there does not speak the protocol of Redis";
            Error::new(ErrorKind::Misconfigured, message)
                .with_help("look at the port in the URL; if it takes only TLS, write rediss://")
        }
        NoAnswer::Broken(error) => match error.code() {
            Some(code) => refusal_of(code, error.detail().unwrap_or_default()),
            None => refusal_by_peer(&error).unwrap_or_else(|| {
                Error::new(ErrorKind::Unavailable, "it accepted a connection and closed it")
                    .with_source(error)
                    .with_help("look at the log of the server; if the port takes only TLS, write rediss://")
            }),
        },
    }
}

fn no_resp3() -> Error {
    Error::new(ErrorKind::Misconfigured, "it does not know HELLO, so protocol=resp3 cannot be had")
        .with_help("leave the protocol out")
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

    /// Reads the reply to `INFO`, of a server that is too old for `HELLO`. An empty reply is a proxy's, or a missing right.
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
    fn reply_of_another_form_has_no_facts() {
        for reply in [Value::Okay, Value::Nil, Value::Array(vec![Value::Int(1)])] {
            assert_eq!(ServerFacts::read(&reply).version, "");
        }
    }
}
