//! Waking by `LISTEN` and `NOTIFY`: one connection per client, for all of its waiters.

use super::PostgresDialect;
use crate::server::{Bell, Ring, Target};
use sqlx::Executor;
use sqlx::postgres::{PgListener, PgPoolOptions};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The pause before a lost connection is made anew. Meanwhile waiters look by themselves, as they always do.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// After how long a silence a bell asks whether anybody listens to it, and whether the server is there: whatever is in between
/// may have forgotten the connection, and says so to nobody.
const TIDY_AFTER: Duration = Duration::from_secs(5);

/// Hears what `release.sql` says.
#[derive(Debug)]
pub(super) struct PgBell {
    target: Arc<Target>,
    /// Ends with its runtime, with the store, or when nobody listens; the next who does begins another.
    task: Mutex<Option<JoinHandle<()>>>,
}

impl PgBell {
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self { target, task: Mutex::default() }
    }
}

impl Bell for PgBell {
    fn keep_hearing(&self, ring: Weak<dyn Ring>) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(hear(Arc::clone(&self.target), ring)));
        }
    }
}

impl Drop for PgBell {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// Hears until nobody listens. Holds no handle of the store, so that it does not keep it alive.
async fn hear(target: Arc<Target>, ring: Weak<dyn Ring>) {
    while is_wanted(&ring) {
        if hear_until_broken(&target, &ring).await.is_ok() {
            return;
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// `Ok` when nobody listens any more.
async fn hear_until_broken(target: &Arc<Target>, ring: &Weak<dyn Ring>) -> sqlx::Result<()> {
    let options = PostgresDialect::new(Arc::clone(target)).options();
    // The listener wants a pool. This one is for it alone, and asks nothing of a connection that it gives out once.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(target.connect_timeout)
        .test_before_acquire(false)
        .connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.listen(target.table.as_str()).await?;
    // Nobody knows what was missed before.
    if let Some(ring) = ring.upgrade() {
        ring.ring_all();
    }
    loop {
        match tokio::time::timeout(TIDY_AFTER, listener.try_recv()).await {
            Ok(Ok(Some(message))) => {
                if let (Some(ring), Some(name)) = (ring.upgrade(), of_hex(message.payload())) {
                    ring.ring(&name);
                }
            }
            Ok(Ok(None)) => return Err(sqlx::Error::WorkerCrashed),
            Ok(Err(error)) => return Err(error),
            Err(_) if !is_wanted(ring) => return Ok(()),
            Err(_) => answers(&mut listener, target.timeout).await?,
        }
    }
}

/// An error if the server does not answer. What it tells meanwhile is heard afterwards.
async fn answers(listener: &mut PgListener, within: Duration) -> sqlx::Result<()> {
    let silent = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    tokio::time::timeout(within, listener.execute("SELECT 1")).await.map_err(silent)?.map(drop)
}

fn is_wanted(ring: &Weak<dyn Ring>) -> bool {
    ring.upgrade().is_some_and(|ring| ring.is_wanted())
}

/// The bytes of a name, of which the message has the hexadecimal digits; `None` if they are none of ours.
fn of_hex(digits: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::of_hex;

    #[test]
    fn a_message_is_a_name_or_nothing() {
        assert_eq!(of_hex("00ff61").as_deref(), Some(&[0, 0xff, 0x61][..]));
        assert_eq!(of_hex("").as_deref(), Some(&[][..]));
        assert_eq!(of_hex("no name"), None);
    }
}
