//! The first requests on a connection: who we are, which protocol and database we want; and who the server says it is.
//!
//! A server or proxy that does not know `HELLO 3` is asked again on a new connection, in RESP2 and so without messages.
//! Refusals are never repeated word by word: a proxy that does not know `HELLO` answers with its arguments, and the password is
//! one of them.

use super::multiplexed::{Connection, NoAnswer};
use super::stream;
use crate::reply::{info_field, text};
use crate::server_error::{is_unknown_command, known_refusal};
use crate::target::{Protocol, Target};
use crate::tls::refusal_by_peer;
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::Secret;
use redis::{Cmd, RedisError, Value};
use secrecy::SecretString;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Under this name the server lists our connections (`CLIENT LIST`).
const CLIENT_NAME: &str = "leasehold";
/// The first versions whose commands suffice: `SET` with `NX` and `GET`, and `PEXPIRE` with `GT`.
const OLDEST: (u32, u32) = (7, 0);

/// Makes a connection that is ready for requests. The deadline covers all steps, and an error names its step. It is never
/// [`Indeterminate`](ErrorKind::Indeterminate): no request changed anything.
pub(super) async fn connect(
    target: &Target,
    waiters: &Arc<WaiterRegistry>,
    deadline: Instant,
) -> Result<(Connection, ServerFacts)> {
    // Read for each connection, because it may be rotated.
    let password = target.login.as_ref().and_then(|login| login.password.as_ref());
    let password = password.map(Secret::read).transpose()?;
    let greet = |protocol| greet(target, protocol, password.as_ref(), waiters, deadline);
    let made = match target.protocol {
        Some(protocol) => greet(protocol).await?,
        None => match greet(Protocol::Resp3).await? {
            None => greet(Protocol::Resp2).await?,
            made => made,
        },
    };
    made.ok_or_else(|| {
        Error::new(ErrorKind::Misconfigured, "it does not know HELLO, so protocol=resp3 cannot be had")
            .with_help("leave the protocol out")
    })
}

/// None if `HELLO 3` is not known at the other end.
async fn greet(
    target: &Target,
    protocol: Protocol,
    password: Option<&SecretString>,
    waiters: &Arc<WaiterRegistry>,
    deadline: Instant,
) -> Result<Option<(Connection, ServerFacts)>> {
    let late = || NoAnswer::Overdue(target.timeouts.connect);
    let stream = stream::open(target, deadline).await?;
    let made = Connection::over(stream, target, protocol, password, waiters);
    let connection = match timeout_at(deadline, made).await.unwrap_or_else(|_| Err(late())) {
        Err(NoAnswer::Broken(error)) if protocol == Protocol::Resp3 && is_unknown_hello(&error) => {
            return Ok(None);
        }
        made => made.map_err(refused)?,
    };
    let request = async |command: &Cmd| {
        let reply = timeout_at(deadline, connection.request(command)).await;
        reply.unwrap_or_else(|_| Err(late())).map_err(refused)
    };
    // redis-rs keeps the answer to its own `HELLO` to itself.
    let version = if protocol == Protocol::Resp3 { 3 } else { 2 };
    let facts = match request(redis::cmd("HELLO").arg(version).arg("SETNAME").arg(CLIENT_NAME)).await? {
        Value::ServerError(error) if is_unknown_command(error.details()) => {
            // A proxy, or a server that is too old. It need not answer this question.
            ServerFacts::read_info(&request(redis::cmd("INFO").arg("server")).await?)
        }
        reply => ServerFacts::read(&check(reply)?),
    };
    if target.database != 0 {
        check(request(redis::cmd("SELECT").arg(target.database)).await?)?;
    }
    Ok(Some((connection, facts)))
}

fn check(reply: Value) -> Result<Value> {
    match reply {
        Value::ServerError(error) => Err(refusal_of(error.code(), error.details().unwrap_or_default())),
        reply => Ok(reply),
    }
}

fn refusal_of(code: &str, text: &str) -> Error {
    known_refusal(code, text, None).unwrap_or_else(|| {
        // No word of the reply is repeated: a proxy may answer with the arguments, and the password is one of them.
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
fn refused(why: NoAnswer) -> Error {
    let error = match why {
        NoAnswer::Overdue(timeout) => {
            let message = format!("it accepted a connection, but did not answer within {timeout:?}");
            return Error::new(ErrorKind::Unavailable, message)
                .with_help("look at the server; if the port takes only TLS, write rediss://");
        }
        NoAnswer::Broken(error) => error,
    };
    match (error.kind(), error.code()) {
        (redis::ErrorKind::Parse, _) => {
            // Without its cause: a stranger's text need not be repeated.
            let message = "what answers there does not speak the protocol of Redis";
            Error::new(ErrorKind::Misconfigured, message)
                .with_help("look at the port in the URL; if it takes only TLS, write rediss://")
        }
        // redis-rs tells no more of a login in RESP2.
        (redis::ErrorKind::AuthenticationFailed, _) => refusal_of("WRONGPASS", ""),
        (_, Some(code)) => refusal_of(code, error.detail().unwrap_or_default()),
        (_, None) => refusal_by_peer(&error).unwrap_or_else(|| {
            Error::new(ErrorKind::Unavailable, "it accepted a connection and closed it")
                .with_source(error)
                .with_help("look at the log of the server; if the port takes only TLS, write rediss://")
        }),
    }
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
    /// Reads the reply to `HELLO`: a map, or in RESP2 a list.
    pub(crate) fn read(reply: &Value) -> Self {
        let fields: HashMap<String, Value> = redis::from_redis_value_ref(reply).unwrap_or_default();
        let field = |name| fields.get(name).and_then(text).unwrap_or_default();
        Self { flavour: field("server"), version: field("version"), mode: field("mode"), role: field("role") }
    }

    /// Reads the reply to `INFO`, of a server that is too old for `HELLO`. An empty reply is a proxy's, or a missing right.
    pub(crate) fn read_info(reply: &Value) -> Self {
        let text = text(reply).unwrap_or_default();
        let field = |name| info_field(&text, name).unwrap_or_default().to_owned();
        let (version, mode) = (field("redis_version"), field("redis_mode"));
        Self { flavour: "redis".to_owned(), version, mode, ..Self::default() }
    }

    /// True if commands are missing that locks need. False if the version is not known.
    pub(super) fn is_too_old(&self) -> bool {
        let mut numbers = self.version.split('.').map(str::parse::<u32>);
        matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < OLDEST)
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
    fn hello_reply_in_resp2_has_the_same_facts() {
        let facts = facts("8.0.1");
        assert_eq!((&*facts.flavour, &*facts.version), ("valkey", "8.0.1"));
        assert_eq!((&*facts.mode, &*facts.role), ("standalone", "master"));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for new in ["7.0.0", "7.2.4", "8.0.1", "10.0.0", "255.255.255", "unstable", ""] {
            assert!(!facts(new).is_too_old(), "{new}");
        }
        for old in ["6.2.14", "5.0", "6.9.99"] {
            assert!(facts(old).is_too_old(), "{old}");
        }
    }

    #[test]
    fn reply_of_another_form_has_no_facts() {
        for reply in [Value::Okay, Value::Nil, Value::Array(vec![Value::Int(1)])] {
            assert_eq!(ServerFacts::read(&reply).version, "");
        }
    }
}
