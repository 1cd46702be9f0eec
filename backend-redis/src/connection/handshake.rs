//! The first requests on a connection: who we are, which protocol and database we want; and who the server says it is.
//!
//! A proxy may not know what is asked beside the login. So a refusal of `HELLO` for any other reason than a wrong password, or the
//! end of the connection in the place of an answer, is followed by an attempt in RESP2, in which no messages come; and what only
//! tells about the server is left out, if the connection ends there.
//!
//! Refusals are never repeated word by word: a proxy that does not know a command answers with its arguments, and the password is
//! one of them.

use super::multiplexed::{Connection, overdue};
use super::stream;
use crate::reply::{info_field, text};
use crate::server_error::{Request, is_unknown_command, known_refusal};
use crate::target::Target;
use crate::tls::refusal_by_peer;
use crate::waiters::WaiterRegistry;
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::Secret;
use redis::{Cmd, ProtocolVersion, RedisError, RedisResult, ServerError, Value};
use secrecy::{ExposeSecret, SecretString};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Under this name the server lists our connections (`CLIENT LIST`).
const CLIENT_NAME: &str = "leasehold";
/// The first versions whose commands suffice: `SET` with `NX` and `GET`, and `PEXPIRE` with `GT`.
const OLDEST: (u32, u32) = (7, 0);

type Connected = (Connection, ServerFacts);

struct Handshake<'a> {
    target: &'a Target,
    password: Option<SecretString>,
    waiters: &'a Arc<WaiterRegistry>,
    deadline: Instant,
}

/// Makes a connection that is ready for requests. The deadline covers all steps, and an error names its step. It is never
/// [`Indeterminate`](ErrorKind::Indeterminate): no request changed anything.
pub(super) async fn connect(
    target: &Target,
    waiters: &Arc<WaiterRegistry>,
    deadline: Instant,
) -> Result<Connected> {
    // Read for each connection, because it may be rotated.
    let password = target.password.as_ref().map(Secret::read).transpose()?;
    let handshake = Handshake { target, password, waiters, deadline };
    if target.protocol != Some(ProtocolVersion::RESP2) {
        match (handshake.greet(ProtocolVersion::RESP3).await?, target.protocol) {
            (Ok(connected), _) => return Ok(connected),
            (Err(why), Some(_)) => return Err(why.context("protocol=resp3 cannot be had")),
            (Err(_), None) => {}
        }
    }
    handshake.greet(ProtocolVersion::RESP2).await?
}

impl Handshake<'_> {
    /// The inner error is the refusal of `HELLO`, unless that is for the password.
    async fn greet(&self, protocol: ProtocolVersion) -> Result<Result<Connected>> {
        // redis-rs keeps the answer to its own `HELLO` to itself.
        let (first, alone) = match protocol {
            ProtocolVersion::RESP2 => {
                (redis::cmd("CLIENT").arg("SETNAME").arg(CLIENT_NAME).take(), redis::cmd("PING"))
            }
            _ => {
                let hello = redis::cmd("HELLO").arg(3).arg("SETNAME").arg(CLIENT_NAME).take();
                (hello.clone(), hello)
            }
        };
        for questions in [vec![first, redis::cmd("INFO")], vec![alone]] {
            let may_hang_up = questions.len() > 1;
            let connection = match self.log_in(protocol).await? {
                Ok(connection) => connection,
                Err(why) => return Ok(Err(why)),
            };
            let mut replies = match self.in_time(connection.request_together(questions)).await {
                Err(why) if may_hang_up && !why.is_timeout() => continue,
                replies => replies.map_err(|why| self.not_answered("", why))?,
            };
            let info = replies.pop().unwrap_or(Value::Nil);
            let facts = match replies.pop() {
                _ if protocol == ProtocolVersion::RESP2 => ServerFacts::read(&admitted(info)?),
                Some(hello) => {
                    ServerFacts { run_id: ServerFacts::read(&info).run_id, ..ServerFacts::read(&hello) }
                }
                None => ServerFacts::read(&info),
            };
            if self.target.database != 0 {
                let select = redis::cmd("SELECT").arg(self.target.database).take();
                self.accepted("SELECT", &connection, &select).await?;
            }
            return Ok(Ok((connection, facts)));
        }
        Err(self.not_answered("", overdue()))
    }

    /// A connection after the login, which is a part of `HELLO` in RESP3.
    async fn log_in(&self, protocol: ProtocolVersion) -> Result<Result<Connection>> {
        let stream = stream::open(self.target, self.deadline).await?;
        let password = self.password.as_ref();
        let made = Connection::over(stream, self.target, protocol, password, self.waiters);
        let connection = match self.in_time(made).await {
            Err(why) if may_be_for_hello(&why) => return Ok(Err(self.not_answered("HELLO", why))),
            made => made.map_err(|why| self.not_answered("HELLO", why))?,
        };
        if protocol == ProtocolVersion::RESP2 && self.target.has_login() {
            let mut auth = redis::cmd("AUTH");
            // Servers and proxies without users take a password alone.
            auth.arg(self.target.user.as_deref()).arg(password.map_or("", ExposeSecret::expose_secret));
            self.accepted("AUTH", &connection, &auth).await?;
        }
        Ok(Ok(connection))
    }

    /// No word of a refusal is repeated.
    async fn accepted(&self, what: &str, connection: &Connection, command: &Cmd) -> Result<()> {
        let reply = self.in_time(connection.request(command)).await;
        match reply.map_err(|why| self.not_answered(what, why))? {
            Value::ServerError(error) => {
                Err(refused(what, error.code(), error.details().unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    async fn in_time<T>(&self, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        timeout_at(self.deadline, answer).await.unwrap_or_else(|_| Err(overdue()))
    }

    /// There is no connection.
    fn not_answered(&self, what: &str, error: RedisError) -> Error {
        if error.is_timeout() {
            let within = self.target.timeouts.connect.min(self.target.timeouts.request);
            let message = format!("it accepted a connection, but did not answer within {within:?}");
            return Error::new(ErrorKind::Unavailable, message)
                .with_help("look at the server; if the port takes only TLS, write rediss://");
        }
        match (error.kind(), error.code()) {
            (redis::ErrorKind::Parse, _) => {
                // Without its cause: a stranger's text need not be repeated.
                let message = "what answers there does not speak the protocol of Redis";
                Error::new(ErrorKind::Misconfigured, message)
                    .with_help("look at the port in the URL; if it takes only TLS, write rediss://")
            }
            // So redis-rs calls what it takes for that.
            (redis::ErrorKind::RESP3NotSupported, _) => refused(what, "ERR", "unknown command 'HELLO'"),
            (_, Some(code)) => refused(what, code, error.detail().unwrap_or_default()),
            (_, None) => refusal_by_peer(&error).unwrap_or_else(|| {
                let message = match what {
                    "AUTH" | "SELECT" => format!("it closed the connection when it was sent {what}"),
                    _ => "it accepted a connection and closed it".to_owned(),
                };
                Error::new(ErrorKind::Unavailable, message)
                    .with_source(error)
                    .with_help("look at the log of the server; if the port takes only TLS, write rediss://")
            }),
        }
    }
}

/// Errors of a server that lets nobody in. It need not answer the question itself.
fn admitted(reply: Value) -> Result<Value> {
    let is_for_the_question =
        |error: &ServerError| error.code() == "NOPERM" || is_unknown_command(error.details());
    match &reply {
        Value::ServerError(error) if !is_for_the_question(error) => {
            let text = error.details().unwrap_or_default();
            let known = known_refusal(error.code(), text, Request::Command("INFO"));
            known.map_or(Ok(reply), Err)
        }
        _ => Ok(reply),
    }
}

fn refused(what: &str, code: &str, text: &str) -> Error {
    known_refusal(code, text, Request::Command(what)).unwrap_or_else(|| {
        let message = format!("it refused {what}, in words that are not known here");
        Error::new(ErrorKind::Unavailable, message)
            .with_help("look at the server, and at what stands between")
    })
}

/// True for a refusal of `HELLO` itself, and for the end of a connection over which a proxy says nothing.
fn may_be_for_hello(error: &RedisError) -> bool {
    !error.is_timeout()
        && error.kind() != redis::ErrorKind::Parse
        && error.code() != Some("WRONGPASS")
        && refusal_by_peer(error).is_none()
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
    /// The name that it gives itself at each start. `HELLO` does not tell it.
    pub(crate) run_id: String,
}

impl ServerFacts {
    /// Reads the reply to `HELLO`, which is a map, or in RESP2 a list; or that to `INFO`, which is text. An error is a proxy's, or
    /// a missing right, and tells nothing.
    pub(crate) fn read(reply: &Value) -> Self {
        let info = text(reply).unwrap_or_default();
        let hello: HashMap<String, Value> = redis::from_redis_value_ref(reply).unwrap_or_default();
        let of_hello = |name| hello.get(name).and_then(text);
        let of_info = |name| info_field(&info, name).map(str::to_owned).unwrap_or_default();
        Self {
            flavour: of_hello("server").unwrap_or_else(|| "redis".to_owned()),
            version: of_hello("version").unwrap_or_else(|| of_info("redis_version")),
            mode: of_hello("mode").unwrap_or_else(|| of_info("redis_mode")),
            role: of_hello("role").unwrap_or_else(|| of_info("role")),
            run_id: of_info("run_id"),
        }
    }

    /// True if it says that it is no primary.
    pub(crate) fn is_replica(&self) -> bool {
        ["replica", "slave"].contains(&&*self.role)
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
