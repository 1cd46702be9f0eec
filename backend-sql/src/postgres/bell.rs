//! Waking by `LISTEN` and `NOTIFY`: one connection per client, for all of its waiters.

use super::PostgresDialect;
use crate::server::{Bell, Ear, Target};
use async_trait::async_trait;
use sqlx::postgres::{PgListener, PgPoolOptions};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The pause before a lost connection is made anew. Meanwhile waiters ask by themselves, as they always do.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How often names that nobody listens for any more are forgotten, and a bell that nobody listens to is given up.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// Hears what `release.sql` says.
#[derive(Debug)]
pub(super) struct PgBell {
    target: Arc<Target>,
    shared: Arc<Shared>,
    /// Ends with its runtime, with the store, or when nobody listens; the next who does begins another.
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// For each name, by its bytes in hexadecimal digits as they are in the message, how often it rang.
    names: Mutex<HashMap<String, watch::Sender<u64>>>,
}

impl PgBell {
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self { target, shared: Arc::default(), task: Mutex::default() }
    }

    fn keep_hearing(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            let (target, shared) = (Arc::clone(&self.target), Arc::downgrade(&self.shared));
            *task = Some(tokio::spawn(hear(target, shared)));
        }
    }
}

#[async_trait]
impl Bell for PgBell {
    async fn listen(&self, name: &[u8]) -> Ear {
        let ear = {
            let mut names = self.shared.names();
            Ear::new(names.entry(hex(name)).or_insert_with(|| watch::channel(0).0).subscribe())
        };
        self.keep_hearing();
        ear
    }
}

impl Drop for PgBell {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<u64>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, name: &str) {
        if let Some(rings) = self.names().get(name) {
            rings.send_modify(|rings| *rings += 1);
        }
    }

    /// After a break nobody knows what was missed: everybody had better ask.
    fn ring_all(&self) {
        for rings in self.names().values() {
            rings.send_modify(|rings| *rings += 1);
        }
    }

    /// False if nobody listens for anything.
    fn tidy(&self) -> bool {
        let mut names = self.names();
        names.retain(|_, rings| rings.receiver_count() > 0);
        !names.is_empty()
    }
}

/// Listens until nobody else does. Holds no handle of the store, so that it does not keep it alive.
async fn hear(target: Arc<Target>, shared: Weak<Shared>) {
    while still_wanted(&shared) {
        if hear_until_broken(&target, &shared).await.is_ok() {
            return;
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// `Ok` when nobody listens any more.
async fn hear_until_broken(target: &Arc<Target>, shared: &Weak<Shared>) -> sqlx::Result<()> {
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
    if let Some(shared) = shared.upgrade() {
        shared.ring_all();
    }
    loop {
        match tokio::time::timeout(TIDY_EVERY, listener.try_recv()).await {
            Ok(Ok(Some(message))) => {
                if let Some(shared) = shared.upgrade() {
                    shared.ring(message.payload());
                }
            }
            Ok(Ok(None)) => return Err(sqlx::Error::WorkerCrashed),
            Ok(Err(error)) => return Err(error),
            Err(_) if !still_wanted(shared) => return Ok(()),
            Err(_) => {}
        }
    }
}

fn still_wanted(shared: &Weak<Shared>) -> bool {
    shared.upgrade().is_some_and(|shared| shared.tidy())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
