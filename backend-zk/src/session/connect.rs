//! Getting a session.

use super::probe::probe;
use super::zk_error::auth_failed;
use crate::target::{LoginMethod, Target};
use leasehold_core::Result;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::{Client, Error as Answer};

/// A connection without an answer is given up after this part of the session timeout, and so is each server that is tried next.
/// The last proof may be a quarter old when a server dies, and the next server may be dead too. The session is still proved
/// before half of it is over, when `leasehold run` stops its command. The library's own choice, two fifths, is too long for that.
const SILENCE_PARTS: u32 = 10;
/// A connection is given up no earlier: a server that collects garbage for so long loses none.
const SERVER_PAUSE: Duration = Duration::from_secs(1);
/// In a session shorter than this many [`SERVER_PAUSE`]s it is given up after this part. After two dead servers as above, the
/// session is still proved before three quarters of it are over, when belief ends.
const SHORT_SESSION_PARTS: u32 = 5;
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
        let (error, all_refuse) = probe(target).await?;
        if is_late || all_refuse {
            return Err(error);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// The time without an answer after which a connection is given up, in a session of this timeout.
fn silence_limit(session: Duration) -> Duration {
    (session / SILENCE_PARTS).max(SERVER_PAUSE).min(session / SHORT_SESSION_PARTS)
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
