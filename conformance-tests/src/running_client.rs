//! What the clients of a run do until they are told to leave: one holds and works, the others want the same lock, and
//! one takes a lock that nobody else wants, again and again.

use crate::history::{RecordedGuard, RecordedLock, Recorder};
use crate::stop::{Stop, Verdict};
use crate::workload::{ProtectedCounters, Workload};
use leasehold_core::{AcquireOptions, DistributedLock, Error, ErrorKind, Wait};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Takes the lock and works under it for as long as it holds.
    Holder,
    /// Waits for the lock, works under it once, gives it back, and waits again.
    Waiter,
    /// Tries for it every few milliseconds, without waiting.
    Prober,
    /// Takes and gives back a lock that is always free: whether the store grants anything at all.
    Passer,
    /// Takes the lock, reads what it protects, and writes when it is told to leave, whether or not it still holds.
    LateWriter,
    /// Takes the lock at random, in every way there is: see [`Workload`].
    Anybody,
}

/// A client at work.
pub(crate) struct RunningClient {
    client: Arc<dyn DistributedLock>,
    leave: watch::Sender<bool>,
    role: Role,
    held: watch::Receiver<Option<u64>>,
    work: JoinHandle<Verdict>,
}

/// The work of a client, as its task has it.
struct ClientTask {
    role: Role,
    workload: Workload,
    lock: RecordedLock,
    leaving: watch::Receiver<bool>,
    held: watch::Sender<Option<u64>>,
}

/// How long a piece of work takes, between reading what the lock protects and writing it.
const WORK: Duration = Duration::from_millis(8);
/// Between two attempts of a client that does not wait, or that met an error.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);
/// How long one wait lasts. After it, the client asks anew.
const WAIT: Duration = Duration::from_secs(2);

impl RunningClient {
    pub(crate) fn begin(
        role: Role,
        workload: &Workload,
        lock: Arc<dyn DistributedLock>,
    ) -> Result<Self, Stop> {
        let client = Arc::clone(&lock);
        let lock = RecordedLock::new(lock, Recorder::create(&workload.directory)?);
        let (leave, leaving) = watch::channel(false);
        let (tell, held) = watch::channel(None);
        let work = ClientTask { role, workload: workload.clone(), lock, leaving, held: tell }.work();
        Ok(Self { client, leave, role, held, work: tokio::spawn(work) })
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Waits until the client has the lock for the first time, and has read what it protects. Answers the token; zero from a client that
    /// does not wait and was refused.
    pub(crate) async fn held(&mut self) -> Result<u64, Stop> {
        match self.held.wait_for(Option::is_some).await {
            Ok(token) => Ok(token.unwrap_or_default()),
            Err(_) => Err(Stop::Failed("a client ended before it had the lock".to_owned())),
        }
    }

    /// Tells it to give back what it has, and to go.
    pub(crate) fn tell(&self) {
        self.leave.send_replace(true);
    }

    /// The same, and waits for it. An attempt that it gave up is withdrawn by then: a process that is killed in the
    /// middle of that would leave its place in a queue behind.
    pub(crate) async fn end(self) -> Verdict {
        self.tell();
        self.work.await??;
        self.client.close().await.or_else(survived)
    }
}

impl ClientTask {
    async fn work(mut self) -> Verdict {
        if self.role == Role::Anybody {
            let stays = |_| !*self.leaving.borrow();
            return self.workload.run_while(&self.lock, stays, survived).await;
        }
        let mut counters = ProtectedCounters::open(&self.workload.directory)?;
        while !*self.leaving.borrow() {
            let Some(guard) = self.acquire().await? else { continue };
            match self.role {
                Role::Passer => drop(self.held.send_replace(Some(guard.token()))),
                _ => self.work_under(&guard, &mut counters).await?,
            }
            guard.release().await.or_else(survived)?;
            if self.role == Role::Holder {
                return Ok(());
            }
            tokio::time::sleep(BETWEEN_ATTEMPTS / 2).await;
        }
        Ok(())
    }

    /// An error of the lock is no end: it stands in the history, and is tried again.
    async fn acquire(&mut self) -> Result<Option<RecordedGuard>, Stop> {
        let wait = match self.role {
            Role::Holder | Role::Waiter | Role::LateWriter => Wait::UpTo(WAIT),
            Role::Prober | Role::Passer | Role::Anybody => Wait::No,
        };
        let mode = self.workload.mode(&mut fastrand::Rng::new());
        let options = AcquireOptions::new().with_ttl(self.workload.ttl).with_wait(wait).with_mode(mode);
        let outcome = tokio::select! {
            outcome = self.lock.acquire(&self.workload.name, &options) => outcome,
            // It leaves, and the attempt is withdrawn behind it.
            _ = self.leaving.wait_for(|leaving| *leaving) => return Ok(None),
        };
        match outcome {
            Ok(guard) => Ok(Some(guard)),
            Err(error) => {
                if self.role == Role::Prober && error.kind() == ErrorKind::Busy {
                    self.held.send_replace(Some(0));
                }
                survived(error)?;
                tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                Ok(None)
            }
        }
    }

    /// The holder works piece by piece until it is told to leave or sees that it lost. Between reading and writing nobody
    /// looks at a guard: that is where a lock alone is not enough.
    async fn work_under(&mut self, guard: &RecordedGuard, counters: &mut ProtectedCounters) -> Verdict {
        loop {
            let read = counters.read(guard)?;
            self.held.send_replace(Some(guard.token()));
            match self.role {
                Role::LateWriter => drop(self.leaving.wait_for(|leaving| *leaving).await),
                _ => tokio::time::sleep(WORK).await,
            }
            counters.write(guard, &read)?;
            let held = guard.observe()?;
            if !held || self.role != Role::Holder || *self.leaving.borrow() {
                return Ok(());
            }
        }
    }
}

/// Accepts every error of a broken store; only an error that no fault explains ends the client.
fn survived(error: Error) -> Verdict {
    if error.kind() == ErrorKind::Invalid { Err(error.into()) } else { Ok(()) }
}
