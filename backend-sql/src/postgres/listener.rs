//! Messages of releases, by `LISTEN` and `NOTIFY`: one connection of a process for all its waiters.

use super::PostgresDialect;
use crate::server::ReleaseListener;
use async_trait::async_trait;
use sqlx::Executor;
use sqlx::postgres::{PgListener, PgPoolOptions};

/// A connection that listens is silent, and a server may end it for that (from version 14 on, by a setting of the role or the
/// database).
const MAY_BE_IDLE: &str = "SELECT set_config('idle_session_timeout', '0', false) \
    WHERE current_setting('idle_session_timeout', true) <> '0'";

/// Receives the messages that `release.sql` sends.
pub(super) struct PgReleaseListener(PgListener);

impl PgReleaseListener {
    pub(super) async fn connect(dialect: &PostgresDialect) -> sqlx::Result<Self> {
        let options = dialect.options()?;
        // The listener wants a pool. This one is for it alone, and does not test a connection that it gives out once.
        let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
        let mut listener = PgListener::connect_with(&pool.connect_lazy_with(options)).await?;
        listener.eager_reconnect(false);
        listener.execute(MAY_BE_IDLE).await?;
        listener.listen(dialect.target.table.as_str()).await?;
        Ok(Self(listener))
    }
}

#[async_trait]
impl ReleaseListener for PgReleaseListener {
    async fn next(&mut self) -> sqlx::Result<Vec<u8>> {
        loop {
            let message = self.0.try_recv().await?.ok_or(sqlx::Error::WorkerCrashed)?;
            // Another program may send other messages on the channel.
            if let Some(name) = from_hex(message.payload()) {
                return Ok(name);
            }
        }
    }

    async fn ping(&mut self) -> sqlx::Result<()> {
        self.0.execute("SELECT 1").await.map(drop)
    }
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
