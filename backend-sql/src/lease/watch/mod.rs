//! Waiting for leases: one look for all who wait in this process.
//!
//! Databases tell nobody that a row has changed, or, as PostgreSQL, tell everybody at once. So one task looks at the
//! rows of all names that this process waits for, in one statement, and wakes one waiter for each that is free: what
//! waiting costs the server does not depend on how many wait here. How soon it looks again depends on how long the lock
//! has been held by now, and on how often other processes were quicker; where there is a bell, it looks when it rings,
//! and long after that if it does not. A lost message costs that pause, and so does a task that has died with its
//! runtime: every waiter comes back by itself, as often as the declared bound wants it, and where looks are late one of
//! them asks.

mod line;
mod rivals;
mod room;
mod rooms;
mod runs;
#[cfg(all(test, feature = "postgres"))]
mod tests;

use crate::server::{Answer, Batch, Bell, Doing, Lane, MOST, Server, Statement, Value};
use leasehold_core::{OwnerId, Result};
pub(crate) use rooms::End;
use rooms::{Held, Next, Rooms};
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep_until;

/// A release wakes waiters if it was said within the last two seconds that somebody waits; that is said again when half
/// of the time is over.
const SAY_AGAIN: Duration = Duration::from_secs(1);

/// The waiters of one table.
#[derive(Debug)]
pub(super) struct Watch {
    rooms: Arc<Rooms>,
    lookout: Arc<Lookout>,
    bell: Option<Arc<dyn Bell>>,
    /// Ends with its runtime or with the store. The next who waits begins another.
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What is said to the server.
#[derive(Debug)]
struct Lookout {
    server: Server,
    look: Batch,
    want: Option<Statement>,
    tell: Option<Statement>,
}

impl Watch {
    /// Looks at least every `longest` at what is waited for.
    pub(super) fn new(server: &Server, longest: Duration) -> Self {
        let (dialect, table) = (server.dialect(), &server.target().table);
        let (leases, bell) = (dialect.leases(), dialect.bell());
        let lookout = Lookout {
            look: Batch::new(leases.watch, dialect, table),
            want: leases.want.map(|want| Statement::new(want, dialect, table)),
            tell: leases.tell.map(|tell| Statement::new(tell, dialect, table)),
            server: server.clone(),
        };
        let rooms = Arc::new(Rooms::new(longest, bell.is_some()));
        Self { rooms, lookout: Arc::new(lookout), bell, task: Mutex::default() }
    }

    /// Begins to wait for a name. Ends when it is worth asking for: a look has found it free, and the caller is the
    /// first who waits for it.
    pub(super) fn changed(&self, name: Vec<u8>, owner: OwnerId) -> impl Future<Output = ()> + Send {
        // First of all: a bell that finds nobody who waits ends, and looks for that at once, perhaps before this goes on.
        let place = self.rooms.wait(name, owner);
        if let Some(bell) = &self.bell {
            let ring: Weak<Rooms> = Arc::downgrade(&self.rooms);
            bell.keep_hearing(ring);
        }
        self.keep_looking();
        place
    }

    /// True if a claim need not ask the store: the lock is known to be held by another, or others of this process are before
    /// it. Only for a claim that waits: it will be woken.
    pub(super) fn keeps_waiting(&self, name: impl FnOnce() -> Vec<u8>, owner: OwnerId) -> bool {
        self.rooms.keeps_waiting(name, owner)
    }

    /// What came of asking for a name: granted or not to this owner, or no answer.
    pub(super) fn asked(&self, name: impl FnOnce() -> Vec<u8>, owner: OwnerId, granted: Option<bool>) {
        self.rooms.asked(name, owner, granted);
    }

    /// True if what an owner gives up is for another one of this process: then the release need tell nobody, and who is told
    /// of it is woken here.
    pub(super) fn hands_on(&self, name: impl FnOnce() -> Vec<u8>, owner: OwnerId) -> bool {
        self.rooms.hands_on(name, owner)
    }

    /// Something became of a lock: who waits here hears of it.
    pub(super) fn ended(&self, name: &[u8], end: End) {
        self.rooms.ended(name, end);
    }

    fn keep_looking(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            self.rooms.begin_anew();
            let (rooms, lookout) = (Arc::clone(&self.rooms), Arc::clone(&self.lookout));
            *task = Some(tokio::spawn(keep_looking(rooms, lookout)));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

async fn keep_looking(rooms: Arc<Rooms>, lookout: Arc<Lookout>) {
    let mut unsaid = Unsaid::default();
    loop {
        match rooms.next() {
            Next::Look(names) => {
                for names in names.chunks(MOST) {
                    lookout.look(&rooms, names, &mut unsaid).await;
                }
            }
            Next::Sleep(_) | Next::Nothing if !unsaid.names.is_empty() => {}
            Next::Sleep(until) => {
                tokio::select! {
                    () = sleep_until(until) => {}
                    () = rooms.sooner.notified() => {}
                }
            }
            Next::Nothing => rooms.sooner.notified().await,
        }
        // One at a time: a lock that has just been given up does not wait for what is said of hundreds.
        if let Some(name) = unsaid.next() {
            lookout.say(&rooms, &name).await;
        }
    }
}

/// Of which names it must be said that somebody waits.
#[derive(Debug, Default)]
struct Unsaid {
    names: BTreeSet<Vec<u8>>,
    /// Of which it was said last.
    last: Vec<u8>,
}

impl Unsaid {
    /// In turn: where there is more to be said than there is time, no name is passed over for ever.
    fn next(&mut self) -> Option<Vec<u8>> {
        let behind = (Bound::Excluded(&self.last), Bound::Unbounded);
        let name = self.names.range::<Vec<u8>, _>(behind).next().or_else(|| self.names.first())?.clone();
        self.names.remove(&name);
        self.last.clone_from(&name);
        Some(name)
    }
}

impl Lookout {
    /// Wakes who can have one of these, and adds to what is unsaid those of which it must be said that somebody waits.
    async fn look(&self, rooms: &Rooms, names: &[Vec<u8>], unsaid: &mut Unsaid) {
        let held = match self.held(names).await {
            Ok(held) => held,
            Err(error) => {
                tracing::debug!(target: "leasehold", %error, "waiting without looking");
                return rooms.failed(names);
            }
        };
        // All of them first: what is said to the server takes its time, and what was seen grows old.
        let free: Vec<&Vec<u8>> =
            names.iter().filter(|name| rooms.found(name, held.get(*name).map(|(held, _)| *held))).collect();
        for name in free {
            self.tell(name).await;
        }
        if self.want.is_some() {
            let fades = held.into_iter().filter(|(_, (_, said_for))| *said_for < SAY_AGAIN);
            unsaid.names.extend(fades.map(|(name, _)| name));
        }
    }

    /// Those of the names that are held, and for how long whoever gives them up will still ring.
    async fn held(&self, names: &[Vec<u8>]) -> Result<HashMap<Vec<u8>, (Held, Duration)>> {
        let (statement, size) = self.look.of(names.len());
        let values: Vec<Value> =
            names.iter().cycle().take(size).map(|name| Value::bytes(name.clone())).collect();
        let answer = self.server.ask(Lane::Asking, Doing::Looking, statement, &values).await?;
        read(&answer).ok_or_else(|| self.server.unreadable())
    }

    /// Tells others that a lock is free. If that fails, they look by themselves before long.
    async fn tell(&self, name: &[u8]) {
        if let Some(tell) = &self.tell {
            let told = self.server.ask(Lane::Asking, Doing::Keeping, tell, &[Value::bytes(name)]).await;
            if let Err(error) = told {
                tracing::debug!(target: "leasehold", %error, "others were not told of a free lock");
            }
        }
    }

    /// Says that somebody waits. If nobody holds the lock any more, it is looked at again; not after an error: it will be said
    /// again.
    async fn say(&self, rooms: &Rooms, name: &[u8]) {
        let Some(want) = &self.want else { return };
        let said = self.server.ask(Lane::Asking, Doing::Keeping, want, &[Value::bytes(name)]).await;
        if said.is_ok_and(|answer| answer.rows.first().and_then(|row| row.first()?.as_int()) == Some(0)) {
            rooms.look_again(name);
        }
    }
}

fn read(answer: &Answer) -> Option<HashMap<Vec<u8>, (Held, Duration)>> {
    let micros =
        |value: &Value| Some(Duration::from_micros(u64::try_from(value.as_int()?).unwrap_or_default()));
    let row = |row: &Vec<Value>| {
        let [name, owner, since, said_for] = row.as_slice() else { return None };
        // What is none of ours is held all the same, and keeps the others from nothing.
        let owner = owner.as_bytes().and_then(OwnerId::from_bytes);
        Some((name.as_bytes()?.to_vec(), (Held { owner, since: micros(since)? }, micros(said_for)?)))
    };
    answer.rows.iter().map(row).collect()
}
