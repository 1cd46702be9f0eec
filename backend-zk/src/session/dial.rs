//! Getting a session.

use super::trouble::auth_failed;
use crate::target::{Proof, Target};
use futures_util::future::join_all;
use leasehold_core::{Error, ErrorKind, Result};
use std::fmt::{self, Write};
use std::io;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use zookeeper_client::{Client, Error as Answer};

/// How many silent connections, one after the other, fit into a session. A connection is given up after so much of it, and
/// so is every server that is tried next. A holder that has proved its session a quarter of it ago, whose server has died,
/// and who meets another dead one or the same again, is still to prove it before half of it is over: then `leasehold run`
/// stops its command. The library's own choice, two fifths, is too long for that.
const CONNECTIONS: u32 = 10;
/// A server may pause for so long, as for a collection of garbage, without losing its connections, unless the session is so
/// short that only [`FEW_CONNECTIONS`] of this length fit into it.
const PAUSE_OF_A_SERVER: Duration = Duration::from_secs(1);
/// In a short session. Then a holder that meets one dead server after the other has three quarters of it.
const FEW_CONNECTIONS: u32 = 5;
/// The pause between two rounds through the servers, and after the last one, which found none.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// How long a server may take to accept a connection when it is asked why there is no session.
const PROBE: Duration = Duration::from_millis(500);
/// How long it may take then to say that it will not agree on TLS.
const PROBE_TLS: Duration = Duration::from_secs(1);
/// How long it may take to close a connection that it has no room for.
const PROBE_CLOSED: Duration = Duration::from_millis(100);

/// A new session, whichever server answers first. It is expected to be given this time, which becomes what it was given.
///
/// # Errors
///
/// [`Unavailable`](ErrorKind::Unavailable) if there is none within the time to connect, and at once if every server
/// refuses the connection; [`Denied`](ErrorKind::Denied) if the credentials are refused.
pub(super) async fn dial(target: &Target, given: &mut Duration) -> Result<Client> {
    let until = Instant::now() + target.timeouts.connect;
    let client = dial_expecting(target, *given, until).await?;
    if client.session_timeout() == *given {
        return Ok(client);
    }
    // The library takes the time after which a connection is given up before it knows what the session is given.
    *given = client.session_timeout();
    drop(client);
    dial_expecting(target, *given, until).await
}

async fn dial_expecting(target: &Target, given: Duration, until: Instant) -> Result<Client> {
    loop {
        match timeout_at(until, connect_once(target, given)).await {
            Ok(Ok(Ok(client))) => return Ok(client),
            Ok(Ok(Err(Answer::AuthFailed))) => return Err(auth_failed()),
            Ok(Err(unusable)) => return Err(unusable),
            Ok(Ok(Err(_))) | Err(_) => {}
        }
        let out_of_time = Instant::now() + PAUSE >= until;
        // Only now: a good connection is not to cost two.
        let seen = probe(target).await?;
        if out_of_time || seen.all_refused {
            return Err(no_session(target, &seen));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// After how long without a word a connection is given up, by what time a session is given.
fn silence(given: Duration) -> Duration {
    (given / CONNECTIONS).max(PAUSE_OF_A_SERVER).min(given / FEW_CONNECTIONS)
}

/// One round through the servers. The client library would go on for a whole session, and tell nothing meanwhile.
async fn connect_once(target: &Target, given: Duration) -> Result<std::result::Result<Client, Answer>> {
    let mut connector = Client::connector()
        .with_session_timeout(target.timeouts.session)
        .with_connection_timeout(silence(given))
        .with_fail_eagerly();
    if let Some(login) = &target.login {
        connector = match login.proof {
            Proof::Digest => connector.with_auth("digest", &login.to_bytes()?),
            Proof::Sasl => connector.with_sasl(login.to_sasl()?),
        };
    }
    let servers = target.servers.to_string();
    match &target.tls {
        None => Ok(connector.connect(&servers).await),
        Some(tls) => tls.connect(connector, &servers).await,
    }
}

/// What a plain connection to each server has shown. The library keeps it to itself.
struct Seen {
    what: String,
    all_refused: bool,
    one_closes: bool,
}

/// What one server does.
enum Look {
    /// It is not there.
    Refuses(io::Error),
    /// It has too many connections.
    Closes,
    /// It takes a connection, and says nothing.
    Accepts,
    /// It does not even do that.
    Nothing,
}

/// All servers at once, so that this takes no longer for three than for one.
async fn probe(target: &Target) -> Result<Seen> {
    let looks = join_all(target.servers.each().map(|server| probe_one(target, server))).await;
    let mut seen = Seen { what: String::new(), all_refused: true, one_closes: false };
    for (server, look) in target.servers.each().zip(looks) {
        let look = look?;
        seen.all_refused &= matches!(look, Look::Refuses(_));
        seen.one_closes |= matches!(look, Look::Closes);
        let comma = if seen.what.is_empty() { "" } else { "; " };
        let _ = write!(seen.what, "{comma}{}:{}: {look}", server.0, server.1);
    }
    Ok(seen)
}

async fn probe_one(target: &Target, server: (&str, u16)) -> Result<Look> {
    let mut stream = match timeout(PROBE, TcpStream::connect(server)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if is_closed(&error) => return Ok(Look::Closes),
        Ok(Err(error)) => return Ok(Look::Refuses(error)),
        Err(_) => return Ok(Look::Nothing),
    };
    if let Some(tls) = &target.tls {
        return match timeout(PROBE_TLS, tls.refusal(server.0, stream)).await {
            Ok(Some(refusal)) => Err(refusal),
            _ => Ok(Look::Accepts),
        };
    }
    // A server without a leader closes it too, but not before it was asked for a session.
    match timeout(PROBE_CLOSED, stream.read(&mut [0])).await {
        Ok(Ok(0) | Err(_)) => Ok(Look::Closes),
        _ => Ok(Look::Accepts),
    }
}

/// An accepted connection may be closed before this side knows that there is one.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected)
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuses(error) => error.fmt(f),
            Self::Closes => f.write_str("accepts connections, and closes them at once"),
            Self::Accepts => f.write_str("accepts connections, and gives no session"),
            Self::Nothing => f.write_str("does not answer"),
        }
    }
}

fn no_session(target: &Target, seen: &Seen) -> Error {
    let help = if seen.all_refused {
        "start ZooKeeper, or look at host and port"
    } else if seen.one_closes {
        "a server closes what is more than maxClientCnxns connections of one address: raise that, or open a store once in \
         a process"
    } else {
        match &target.tls {
            None => {
                "a server gives no session while its ensemble has no quorum, or if it speaks TLS and the URL does not"
            }
            Some(tls) if tls.has_identity() => {
                "a server gives no session while its ensemble has no quorum, or if it does not trust the certificate of \
                 tls_cert"
            }
            Some(_) => {
                "a server gives no session while its ensemble has no quorum, or if it wants to know who asks, as servers \
                 with TLS do by default: tls_cert=/path/to/cert.pem&tls_key=/path/to/key.pem"
            }
        }
    };
    let message = format!("no session with ZooKeeper at {} ({})", target.servers, seen.what);
    Error::new(ErrorKind::Unavailable, message).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_silent_servers_fit_between_a_proof_and_the_end_of_a_command() {
        for (session, given_up) in [(40_000, 4_000), (10_000, 1_000), (5_000, 1_000), (4_000, 800), (200, 40)]
        {
            assert_eq!(
                silence(Duration::from_millis(session)),
                Duration::from_millis(given_up),
                "{session} ms"
            );
        }
        let session = Duration::from_secs(10);
        assert!(session / 4 + silence(session) * 2 < session / 2);
    }
}
