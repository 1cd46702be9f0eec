//! Messages of releases, by `LISTEN` and `NOTIFY`: one connection of a process for all its waiters.

use super::PostgresDialect;
use crate::server::Releases;
use futures_util::StreamExt;
use futures_util::stream::try_unfold;
use sqlx::Executor;
use sqlx::postgres::{PgListener, PgPoolOptions};
use std::time::Duration;
use tokio::time::timeout;

/// A connection that listens is silent, and a server may end it for that (from version 14 on, by a setting of the role or the
/// database).
const MAY_BE_IDLE: &str = "SET idle_session_timeout = 0";
/// After this time without a message the connection is tested: a firewall may have forgotten it.
const SILENCE: Duration = Duration::from_secs(5);

/// Receives the messages that `release.sql` sends.
pub(super) async fn releases(dialect: &PostgresDialect) -> sqlx::Result<Releases> {
    // The listener wants a pool. This one is for it alone, and does not test a connection that it gives out once.
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let mut listener = PgListener::connect_with(&pool.connect_lazy_with(dialect.options()?)).await?;
    listener.eager_reconnect(false);
    // An earlier version does not know the setting. If the connection broke, the next statement says so.
    let _ = listener.execute(MAY_BE_IDLE).await;
    listener.listen(dialect.target.table.as_str()).await?;
    let answers_within = dialect.target.timeout;
    let receive = move |mut listener: PgListener| async move {
        let name = match timeout(SILENCE, listener.try_recv()).await {
            // Another program may send other messages on the channel.
            Ok(message) => from_hex(message?.ok_or(sqlx::Error::WorkerCrashed)?.payload()),
            Err(_) => {
                let ping = timeout(answers_within, listener.execute("SELECT 1")).await;
                ping.map_err(|_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))??;
                None
            }
        };
        Ok(Some((name, listener)))
    };
    Ok(try_unfold(listener, receive).boxed())
}

/// The bytes of a name; `None` if these are no hexadecimal digits.
fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_a_name_in_hexadecimal_digits_or_ignored() {
        assert_eq!(from_hex("00ff61").as_deref(), Some(&[0, 0xff, 0x61][..]));
        assert_eq!(from_hex("").as_deref(), Some(&[][..]));
        assert_eq!(from_hex("no name"), None);
    }
}
