//! Getting a session.

use super::probe::probe;
use super::zk_error::auth_failed;
use crate::target::{LoginMethod, Target};
use leasehold_core::Result;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::{Client, Error as Answer};

/// The number of silent connections, one after the other, that fit into a session. A connection is given up after this part of the
/// session, and so is every server that is tried next. A holder whose session was proved a quarter of it ago, whose server
/// dies, and who meets another dead server, still proves it before half of it is over: then `leasehold run` stops its command.
/// The library's own choice, two fifths of the session, is too long for that.
const SILENT_CONNECTIONS: u32 = 10;
/// A pause of a server, as for a collection of garbage, that costs it no connections; in a session in which
/// [`FEWER_CONNECTIONS`] of this length fit.
const SERVER_PAUSE: Duration = Duration::from_secs(1);
/// The same as [`SILENT_CONNECTIONS`] in a shorter session. A holder then has three quarters of it.
const FEWER_CONNECTIONS: u32 = 5;
/// The pause between two rounds through the servers, and after the last round.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A new session, with the server that answers first. `expected` is the session timeout that the servers are expected to give,
/// and becomes what they gave.
///
/// Fails with [`Unavailable`](leasehold_core::ErrorKind::Unavailable) if there is none within the time to connect, and at once
/// if every server refuses the connection; with [`Denied`](leasehold_core::ErrorKind::Denied) if the login is refused.
pub(super) async fn connect(target: &Target, expected: &mut Duration) -> Result<Client> {
    let deadline = Instant::now() + target.timeouts.connect;
    let client = connect_expecting(target, *expected, deadline).await?;
    if client.session_timeout() == *expected {
        return Ok(client);
    }
    // The library wants to know when to give up a connection before it knows the session timeout.
    *expected = client.session_timeout();
    drop(client);
    connect_expecting(target, *expected, deadline).await
}

async fn connect_expecting(target: &Target, expected: Duration, deadline: Instant) -> Result<Client> {
    loop {
        match timeout_at(deadline, connect_once(target, &target.servers.to_string(), expected)).await {
            Ok(Ok(Ok(client))) => return Ok(client),
            Ok(Ok(Err(Answer::AuthFailed))) => return Err(auth_failed()),
            Ok(Err(unusable)) => return Err(unusable),
            Ok(Ok(Err(_))) | Err(_) => {}
        }
        let is_late = Instant::now() + RETRY_PAUSE >= deadline;
        // Only after a failure: a good connection is made once.
        let report = probe(target).await?;
        if is_late || report.all_refuse {
            return Err(report.into_error(target));
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// The time without an answer after which a connection is given up, in a session of this timeout.
fn silence_limit(session: Duration) -> Duration {
    (session / SILENT_CONNECTIONS).max(SERVER_PAUSE).min(session / FEWER_CONNECTIONS)
}

/// A session at this server alone.
pub(crate) async fn connect_to(target: &Target, server: &str) -> Option<Client> {
    connect_once(target, server, target.timeouts.session).await.ok()?.ok()
}

/// One round through the servers. By itself the library would go on for a whole session, and tell nothing meanwhile.
async fn connect_once(
    target: &Target,
    servers: &str,
    expected: Duration,
) -> Result<std::result::Result<Client, Answer>> {
    let mut connector = Client::connector()
        .with_session_timeout(target.timeouts.session)
        .with_connection_timeout(silence_limit(expected))
        .with_fail_eagerly();
    if let Some(login) = &target.login {
        connector = match login.method {
            LoginMethod::Digest => connector.with_auth("digest", &login.to_bytes()?),
            LoginMethod::Sasl => connector.with_sasl(login.to_sasl()?),
        };
    }
    match &target.tls {
        None => Ok(connector.connect(servers).await),
        Some(tls) => tls.connect(connector, servers).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_silent_servers_fit_between_a_proof_and_the_end_of_a_command() {
        for (session, limit) in [(40_000, 4_000), (10_000, 1_000), (5_000, 1_000), (4_000, 800), (200, 40)] {
            assert_eq!(
                silence_limit(Duration::from_millis(session)),
                Duration::from_millis(limit),
                "{session} ms"
            );
        }
        let session = Duration::from_secs(10);
        assert!(session / 4 + silence_limit(session) * 2 < session / 2);
    }
}
