//! Why there is no session: a plain connection to each server. The library does not tell.

use crate::target::Target;
use futures_util::future::join_all;
use leasehold_core::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

const ACCEPT_TIMEOUT: Duration = Duration::from_millis(500);
const TLS_TIMEOUT: Duration = Duration::from_secs(1);
/// The time in which it closes a connection that exceeds its limit.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// The behaviour of one server.
enum Behaviour {
    RefusesConnections(io::Error),
    ClosesConnections,
    GivesNoSession,
    IsSilent,
}

/// Tries all servers at once: why there is no session, and whether all of them refuse connections. Fails if one of them refuses TLS.
pub(super) async fn probe(target: &Target) -> Result<(Error, bool)> {
    let probed = join_all(target.servers.each().map(|server| probe_server(target, server))).await;
    let behaviours: Vec<Behaviour> = probed.into_iter().collect::<Result<_>>()?;
    let shown = |((host, port), behaviour)| format!("{host}:{port}: {behaviour}");
    let shown: Vec<String> = target.servers.each().zip(&behaviours).map(shown).collect();
    let message = format!("no session with ZooKeeper at {} ({})", target.servers, shown.join("; "));
    let all_refuse = behaviours.iter().all(|it| matches!(it, Behaviour::RefusesConnections(_)));
    let help = help(target, &behaviours, all_refuse);
    Ok((Error::new(ErrorKind::Unavailable, message).with_help(help), all_refuse))
}

async fn probe_server(target: &Target, server: (&str, u16)) -> Result<Behaviour> {
    let mut stream = match timeout(ACCEPT_TIMEOUT, TcpStream::connect(server)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if is_closed(&error) => return Ok(Behaviour::ClosesConnections),
        Ok(Err(error)) => return Ok(Behaviour::RefusesConnections(error)),
        Err(_) => return Ok(Behaviour::IsSilent),
    };
    if let Some(tls) = &target.tls {
        return match timeout(TLS_TIMEOUT, tls.refusal(server.0, stream)).await {
            Ok(Some(refusal)) => Err(refusal),
            _ => Ok(Behaviour::GivesNoSession),
        };
    }
    // A server without a leader closes the connection too, but only after a request for a session.
    match timeout(CLOSE_TIMEOUT, stream.read(&mut [0])).await {
        Ok(Ok(0) | Err(_)) => Ok(Behaviour::ClosesConnections),
        _ => Ok(Behaviour::GivesNoSession),
    }
}

/// An accepted connection may be closed before this side knows of it.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected)
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RefusesConnections(error) => error.fmt(f),
            Self::ClosesConnections => f.write_str("accepts connections, and closes them at once"),
            Self::GivesNoSession => f.write_str("accepts connections, and gives no session"),
            Self::IsSilent => f.write_str("does not answer"),
        }
    }
}

fn help(target: &Target, behaviours: &[Behaviour], all_refuse: bool) -> Cow<'static, str> {
    let reason = match &target.tls {
        _ if all_refuse => return "start ZooKeeper, or look at host and port".into(),
        _ if behaviours.iter().any(|it| matches!(it, Behaviour::ClosesConnections)) => {
            return "a server closes what is more than maxClientCnxns connections of one address: raise that, or open a store once in \
                    a process".into();
        }
        None => "speaks TLS and the URL does not",
        Some(tls) if tls.has_identity() => "does not trust the certificate of tls_cert",
        Some(_) => {
            "wants a certificate of the client, as servers with TLS do by default: \
             tls_cert=/path/to/cert.pem&tls_key=/path/to/key.pem"
        }
    };
    format!("a server gives no session while its ensemble has no quorum, or if it {reason}").into()
}
