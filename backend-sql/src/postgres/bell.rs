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

/// Who hears says nothing, which a server may take for idle (from version 14 on, by a setting of the role or the database).
const MAY_BE_IDLE: &str = "SELECT set_config('idle_session_timeout', '0', false) \
    WHERE current_setting('idle_session_timeout', true) <> '0'";

/// Hears what `release.sql` says.
#[derive(Debug)]
pub(super) struct PgBell {
    target: Arc<Target>,
    task: Arc<Task>,
}

/// Ends with its runtime, with the store, or when nobody listens; the next who does begins another. Locked while it decides
/// to end: who comes before that is heard for, and who comes after it finds none.
type Task = Mutex<Option<JoinHandle<()>>>;

impl PgBell {
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self { target, task: Arc::default() }
    }
}

impl Bell for PgBell {
    fn keep_hearing(&self, ring: Weak<dyn Ring>) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(hear(Arc::clone(&self.target), ring, Arc::clone(&self.task))));
        }
    }
}

impl Drop for PgBell {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

/// Hears until nobody listens. Holds no handle of the store, so that it does not keep it alive.
async fn hear(target: Arc<Target>, ring: Weak<dyn Ring>, task: Arc<Task>) {
    while !ends(&task, &ring) {
        if target.headroom.is_short() || hear_until_broken(&target, &ring).await.is_err() {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// True if nobody listens, and then there is no task any more.
fn ends(task: &Task, ring: &Weak<dyn Ring>) -> bool {
    let mut task = task.lock().unwrap_or_else(PoisonError::into_inner);
    if is_wanted(ring) {
        return false;
    }
    *task = None;
    true
}

/// `Ok` when nobody listens any more.
async fn hear_until_broken(target: &Arc<Target>, ring: &Weak<dyn Ring>) -> sqlx::Result<()> {
    let mut listener = within(target.connect_timeout, listen(target)).await?;
    // A waiter can do without this connection, and others may need one.
    let dialect = PostgresDialect::new(Arc::clone(target));
    if let Some(spare) = target.headroom.spare(&dialect, target.connect_timeout).await {
        spare.close().await;
    }
    // Nobody knows what was missed before.
    if let Some(ring) = ring.upgrade() {
        ring.ring_all();
    }
    while !target.headroom.is_short() {
        match tokio::time::timeout(TIDY_AFTER, listener.try_recv()).await {
            Ok(Ok(Some(message))) => {
                if let (Some(ring), Some(name)) = (ring.upgrade(), of_hex(message.payload())) {
                    ring.ring(&name);
                }
            }
            Ok(Ok(None)) => {
                target.headroom.broke();
                return Err(sqlx::Error::WorkerCrashed);
            }
            Ok(Err(error)) => return Err(error),
            Err(_) if !is_wanted(ring) => return Ok(()),
            Err(_) => answers(&mut listener, target.timeout).await?,
        }
    }
    Err(sqlx::Error::PoolTimedOut)
}

async fn listen(target: &Arc<Target>) -> sqlx::Result<PgListener> {
    let options = PostgresDialect::new(Arc::clone(target)).options()?;
    // The listener wants a pool. This one is for it alone, and asks nothing of a connection that it gives out once.
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false).connect_lazy_with(options);
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.execute(MAY_BE_IDLE).await?;
    listener.listen(target.table.as_str()).await?;
    Ok(listener)
}

/// An error if the server does not answer. What it tells meanwhile is heard afterwards.
async fn answers(listener: &mut PgListener, time: Duration) -> sqlx::Result<()> {
    within(time, listener.execute("SELECT 1")).await.map(drop)
}

/// What is between here and the server may forget a connection at any moment, and nobody is told.
async fn within<T>(time: Duration, asked: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = |_| sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    tokio::time::timeout(time, asked).await.map_err(silent)?
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
    #![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

    use super::*;
    use leasehold_store_url::StoreUrl;
    use std::sync::mpsc::{Receiver, Sender, channel};

    #[test]
    fn a_message_is_a_name_or_nothing() {
        assert_eq!(of_hex("00ff61").as_deref(), Some(&[0, 0xff, 0x61][..]));
        assert_eq!(of_hex("").as_deref(), Some(&[][..]));
        assert_eq!(of_hex("no name"), None);
    }

    /// Says that it is asked, and answers what it is told to.
    #[derive(Debug)]
    struct Asked {
        asked: Mutex<Sender<()>>,
        answers: Mutex<Receiver<bool>>,
    }

    impl Ring for Asked {
        fn ring(&self, _: &[u8]) {}

        fn ring_all(&self) {}

        fn is_wanted(&self) -> bool {
            self.asked.lock().unwrap().send(()).unwrap();
            self.answers.lock().unwrap().recv().unwrap_or(false)
        }
    }

    /// Between the look whether it is wanted and its end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_comes_while_a_bell_ends_is_heard_for() {
        let url = StoreUrl::parse("postgres://u@127.0.0.1/d").unwrap();
        let bell = Arc::new(PgBell::new(Arc::new(Target::of(&url, "postgres", 5432).unwrap())));
        let ((asked, is_asked), (answer, answers)) = (channel(), channel());
        let ring = Arc::new(Asked { asked: Mutex::new(asked), answers: Mutex::new(answers) });
        let ring: Arc<dyn Ring> = ring;
        bell.keep_hearing(Arc::downgrade(&ring));
        is_asked.recv().unwrap();

        let ((came, has_come), runtime) = (channel(), tokio::runtime::Handle::current());
        let comes = std::thread::spawn({
            let (bell, ring) = (Arc::clone(&bell), Arc::downgrade(&ring));
            move || {
                let _in_runtime = runtime.enter();
                bell.keep_hearing(ring);
                came.send(())
            }
        });
        // It may have to wait for the end.
        let _ = has_come.recv_timeout(Duration::from_millis(200));
        answer.send(false).unwrap();
        comes.join().unwrap().unwrap();
        assert!(is_asked.recv_timeout(Duration::from_secs(10)).is_ok(), "nobody hears");
        drop(answer);
    }
}
