//! The poller: one task of the store reads the rows of all awaited names in one statement, and wakes the waiters whose rows are free.
//!
//! The core lets only the first waiter of each name wait here, so the number of statements does not depend on the number of waiters.
//! A short hold is polled at short intervals. Where the database sends messages, the poll marks the rows, the release of a marked row
//! sends a message, and the message makes the poller read that row at once.
//!
//! Polls and messages are hints. Each waiter also asks at the fallback interval of the core. As long as polls are answered in time, the
//! last answer is its answer; if polls fail, or the task has ended with its runtime, the attempt is sent.

mod messages;
#[cfg(all(test, feature = "postgres"))]
mod tests;

use super::READERS;
use super::row::micros;
use super::semantics::{FALLBACK, POLL_AT_MOST};
use crate::lock_mutex;
use crate::server::{Answer, ListStatement, MAX_CLAIMS, PoolClass, Server, Value};
use leasehold_core::{OwnerId, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// For how long an answer counts after the next poll was due.
const LATE: Duration = Duration::from_millis(50);
/// The time until the first poll of a name, and the shortest pause between two; half of it beside the poll of another name.
const SHORTEST: Duration = Duration::from_millis(5);
/// A lock that was held for some time is polled again after this part of it, so a waiter waits longer than the hold lasts by this part.
const PART_OF_HOLD: u32 = 16;

/// Wakes the waiters of one store. Dropping it ends its task.
#[derive(Debug)]
pub(super) struct Poller {
    poll_loop: Arc<PollLoop>,
    /// Ends with its runtime. The next waiter starts another.
    task: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct PollLoop {
    server: Server,
    statement: ListStatement,
    state: Mutex<State>,
    /// A name is due before the poller wakes up.
    due_sooner: Notify,
    /// A name is awaited, and none was before.
    has_waiters: Notify,
}

#[derive(Debug, Default)]
struct State {
    names: HashMap<Vec<u8>, Awaited>,
    /// When the poller wakes up; `None` if it waits for a name.
    wakes_at: Option<Instant>,
    is_listening: bool,
}

#[derive(Debug)]
struct Awaited {
    /// A waiter that was dropped has closed its channel.
    waiters: Vec<WaitingClaim>,
    due: Instant,
    /// From then on it is polled together with a name that is due.
    joins_from: Instant,
    /// A message does not make it due sooner than this.
    not_before: Instant,
    /// A poll is under way, and nothing has happened since it was sent.
    is_polling: bool,
    /// The answer to the last poll, if nothing has happened since.
    row: Option<PolledRow>,
    /// The attempt of a waiter was answered by that row, so the waiter comes back.
    is_expected: bool,
}

#[derive(Debug)]
struct WaitingClaim {
    owner: OwnerId,
    /// For a reader: from then on it is also woken while readers hold the row.
    may_share_from: Option<Instant>,
    wake: oneshot::Sender<()>,
}

#[derive(Debug)]
struct PolledRow {
    owner: Option<OwnerId>,
    held_for: Duration,
    ends_in: Duration,
    /// Its release will send a message.
    sends_message: bool,
}

impl Poller {
    pub(super) fn new(server: &Server) -> Self {
        let (texts, table) = (server.dialect().texts(), &server.target().table);
        let poll_loop = PollLoop {
            statement: ListStatement::new(texts.poll, texts, table),
            server: server.clone(),
            state: Mutex::default(),
            due_sooner: Notify::new(),
            has_waiters: Notify::new(),
        };
        Self { poll_loop: Arc::new(poll_loop), task: Mutex::default() }
    }

    /// True if the last poll has found the row held by an owner that is neither this one nor readers, and the next poll is not late. The
    /// row is then polled on for this claim, which waits and must register again.
    pub(super) fn keep_polling_if_held(&self, name: impl FnOnce() -> Vec<u8>, owner: OwnerId) -> bool {
        let mut state = lock_mutex(&self.poll_loop.state);
        let awaited = if state.names.is_empty() { None } else { state.names.get_mut(&name()) };
        let Some(awaited) = awaited.filter(|awaited| Instant::now() < awaited.due + LATE) else {
            return false;
        };
        awaited.is_expected =
            awaited.row.as_ref().is_some_and(|row| ![Some(owner), Some(READERS)].contains(&row.owner));
        awaited.is_expected
    }

    /// This process has released the lock, or may have released it: the last answer does not count.
    pub(super) fn released(&self, name: &[u8]) {
        if let Some(awaited) = lock_mutex(&self.poll_loop.state).names.get_mut(name) {
            awaited.poll_soon(Instant::now());
        }
    }

    /// Registers a waiter. The future is ready when a poll has found the row free, or held by this owner. For a reader also when readers
    /// hold it, but not sooner than one long pause after it registered: a writer may keep it out.
    pub(super) fn changed(
        &self,
        name: Vec<u8>,
        owner: OwnerId,
        is_reader: bool,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (wake, woken) = oneshot::channel();
        let may_share_from = is_reader.then(|| Instant::now() + POLL_AT_MOST);
        self.poll_loop.add(name, WaitingClaim { owner, may_share_from, wake });
        let mut task = lock_mutex(&self.task);
        while task.try_join_next().is_some() {}
        if task.is_empty() {
            let poll_loop = Arc::clone(&self.poll_loop);
            task.spawn(async move { tokio::join!(poll_loop.poll(), poll_loop.listen()).0 });
        }
        async move { _ = woken.await }
    }
}

impl PollLoop {
    fn add(&self, name: Vec<u8>, waiter: WaitingClaim) {
        let (now, mut state) = (Instant::now(), lock_mutex(&self.state));
        if state.names.is_empty() {
            self.has_waiters.notify_one();
        }
        let awaited = state.names.entry(name).or_insert_with(|| Awaited::new(now));
        awaited.waiters.retain(|waiter| !waiter.wake.is_closed());
        if awaited.waiters.is_empty() && !awaited.is_expected {
            *awaited = Awaited::new(now);
        }
        awaited.is_expected = false;
        awaited.waiters.push(waiter);
        let due = awaited.due;
        if state.wakes_at.is_none_or(|at| due < at) {
            self.due_sooner.notify_one();
        }
    }

    async fn poll(&self) {
        loop {
            match self.due_names() {
                Ok(names) => {
                    for names in names.chunks(MAX_CLAIMS) {
                        let found = self.read(names).await;
                        self.wake(names, found);
                    }
                }
                Err(Some(wakes_at)) => _ = timeout_at(wakes_at, self.due_sooner.notified()).await,
                Err(None) => self.due_sooner.notified().await,
            }
        }
    }

    /// The names to poll now, or the time when one is due. Forgets the waiters that were dropped.
    fn due_names(&self) -> Result<Vec<Vec<u8>>, Option<Instant>> {
        let (now, mut state) = (Instant::now(), lock_mutex(&self.state));
        state.names.retain(|_, awaited| {
            awaited.waiters.retain(|waiter| !waiter.wake.is_closed());
            !awaited.waiters.is_empty()
        });
        state.wakes_at = state.names.values().map(|awaited| awaited.due).min();
        if state.wakes_at.is_none_or(|at| at > now) {
            return Err(state.wakes_at);
        }
        let mut names = Vec::new();
        for (name, awaited) in state.names.iter_mut().filter(|(_, awaited)| awaited.joins_from <= now) {
            (awaited.is_polling, awaited.not_before) = (true, now + SHORTEST);
            names.push(name.clone());
        }
        Ok(names)
    }

    /// The rows of these names that are held.
    async fn read(&self, names: &[Vec<u8>]) -> Result<HashMap<Vec<u8>, PolledRow>> {
        let (statement, size) = self.statement.for_claims(names.len());
        let values: Vec<Value> =
            names.iter().cycle().take(size).map(|name| Value::bytes(name.clone())).collect();
        let answer = self.server.read(PoolClass::Attempt, statement, &values).await?;
        read_rows(&answer).ok_or_else(|| self.server.unreadable())
    }

    /// Wakes the waiters whose row is free, and those that hold it without knowing: the answer to an attempt was lost. A poll that
    /// failed wakes no waiter: each asks by itself, and hears why.
    fn wake(&self, names: &[Vec<u8>], mut found: Result<HashMap<Vec<u8>, PolledRow>>) {
        let (now, mut state, mut woken) = (Instant::now(), lock_mutex(&self.state), Vec::new());
        let is_listening = state.is_listening;
        for name in names {
            let Some(awaited) = state.names.get_mut(name) else { continue };
            let (pause, row) = match found.as_mut().map(|rows| rows.remove(name)) {
                Ok(None) => {
                    woken.append(&mut awaited.waiters);
                    state.names.remove(name);
                    continue;
                }
                Ok(Some(row)) => {
                    woken.extend(awaited.waiters.extract_if(.., |waiter| row.may_be_granted(waiter, now)));
                    (row.pause(is_listening), Some(row))
                }
                Err(_) => (POLL_AT_MOST, None),
            };
            if awaited.is_polling {
                awaited.poll_after(pause, now);
                awaited.row = row;
            }
        }
        drop(state);
        if let Err(error) = found {
            tracing::debug!(target: "leasehold", %error, "a poll for waiters failed");
        }
        woken.into_iter().for_each(|waiter| _ = waiter.wake.send(()));
    }
}

impl Awaited {
    fn new(now: Instant) -> Self {
        let mut awaited = Self {
            waiters: Vec::new(),
            due: now,
            joins_from: now,
            not_before: now,
            is_polling: false,
            row: None,
            is_expected: false,
        };
        awaited.poll_after(SHORTEST, now);
        awaited
    }

    fn poll_after(&mut self, pause: Duration, now: Instant) {
        (self.due, self.joins_from, self.is_polling) = (now + pause, now + pause / 2, false);
    }

    /// The row has changed since the last poll was sent.
    fn poll_soon(&mut self, now: Instant) {
        let soon = self.not_before.max(now);
        // While a poll is under way, its own times have passed.
        (self.due, self.joins_from) = match self.is_polling {
            true => (soon, soon),
            false => (self.due.min(soon), self.joins_from.min(soon)),
        };
        (self.row, self.is_polling) = (None, false);
    }
}

impl PolledRow {
    fn may_be_granted(&self, waiter: &WaitingClaim, now: Instant) -> bool {
        self.owner == Some(waiter.owner)
            || (self.owner == Some(READERS) && waiter.may_share_from.is_some_and(|from| from <= now))
    }

    /// The time until the next poll. Jittered, so that processes do not poll in step.
    fn pause(&self, is_listening: bool) -> Duration {
        let pause = match self.sends_message && is_listening {
            true => FALLBACK,
            false => (self.held_for / PART_OF_HOLD).min(POLL_AT_MOST),
        };
        pause.mul_f64(1.0 - fastrand::f64() / 4.0).min(self.ends_in).max(SHORTEST)
    }
}

/// `None` if it is no answer to `poll.sql`.
fn read_rows(answer: &Answer) -> Option<HashMap<Vec<u8>, PolledRow>> {
    let row = |row: &Vec<Value>| {
        let [name, owner, held_for, ends_in, sends_message] = row.as_slice() else { return None };
        let row = PolledRow {
            // A row that another program wrote is held all the same.
            owner: owner.as_bytes().and_then(OwnerId::from_bytes),
            held_for: micros(held_for.as_int()?),
            ends_in: micros(ends_in.as_int()?),
            sends_message: sends_message.as_int()? != 0,
        };
        Some((name.as_bytes()?.to_vec(), row))
    };
    answer.rows.iter().map(row).collect()
}
