//! Renewals, releases and grants. All that wait for the connection share one statement of each kind: one transaction, one lock of
//! the file and one wait for the disk, however many they are.

use super::connection::SqliteQuery;
use super::connection_slot::{ConnectionHandle, ConnectionSlot, runtime_ended};
use super::host_clock::HostTime;
use super::rows::{read_owner, read_token};
use super::settings::Settings;
use crate::lock_mutex;
use crate::names::hex;
use leasehold_core::{Claim, FencingToken, OwnerId, Result};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// For one claim alone, at two thirds of the cost of a statement for many.
const ACQUIRE_ONE: &str = include_str!("acquire_one.sql");
const RELEASE_ONE: &str = include_str!("release_one.sql");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Renew,
    Release,
    Grant,
}

/// A claim, and how long its lease lasts from now on; of a release, its linger.
pub(super) type Change = (Claim, Duration);

/// The owners whose rows a statement has changed, and after a grant their tokens.
pub(super) type ChangedOwners = Arc<HashMap<OwnerId, FencingToken>>;

/// The calls that wait for the connection of the writer. The task of the first of them runs them all; if its runtime ends, all fail,
/// and the next call starts another task.
#[derive(Debug)]
pub(super) struct Batch {
    settings: Arc<Settings>,
    writer: ConnectionHandle,
    /// The way to the task that runs the calls. Before the first call it has no receiver.
    calls: Mutex<UnboundedSender<Call>>,
}

#[derive(Debug)]
struct Call {
    kind: ChangeKind,
    changes: Vec<Change>,
    reply: oneshot::Sender<Result<ChangedOwners>>,
}

impl Batch {
    /// A batch without a task: the first call starts one.
    pub(super) fn new(settings: &Arc<Settings>, writer: &ConnectionHandle) -> Self {
        let calls = Mutex::new(unbounded_channel().0);
        Self { settings: Arc::clone(settings), writer: writer.clone(), calls }
    }

    /// Makes changes by the next statement of their kind.
    pub(super) async fn change(&self, kind: ChangeKind, changes: Vec<Change>) -> Result<ChangedOwners> {
        let (reply, answer) = oneshot::channel();
        self.send(Call { kind, changes, reply })?;
        answer.await.unwrap_or_else(|_| Err(runtime_ended()))
    }

    fn send(&self, call: Call) -> Result<()> {
        let mut sender = lock_mutex(&self.calls);
        let Err(SendError(call)) = sender.send(call) else { return Ok(()) };
        let (next, calls) = unbounded_channel();
        // It has its receiver, here.
        let _ = next.send(call);
        let settings = Arc::clone(&self.settings);
        self.writer.spawn(async move |mut slot| settings.run(&mut slot, calls).await)?;
        *sender = next;
        Ok(())
    }
}

impl Settings {
    /// Renewals come first, because leases end; releases before grants, which can take what was freed.
    async fn run(&self, slot: &mut ConnectionSlot, mut batch: UnboundedReceiver<Call>) {
        batch.close();
        let mut calls = Vec::new();
        while let Some(call) = batch.recv().await {
            calls.push(call);
        }
        for kind in [ChangeKind::Renew, ChangeKind::Release, ChangeKind::Grant] {
            // An acquisition that was given up must not be granted later.
            let is_next =
                |call: &mut Call| call.kind == kind && !(kind == ChangeKind::Grant && call.reply.is_closed());
            let next: Vec<Call> = calls.extract_if(.., is_next).collect();
            if next.is_empty() {
                continue;
            }
            let changes: Vec<&Change> = next.iter().flat_map(|call| &call.changes).collect();
            let changed = self.execute(slot, kind, &changes).await;
            for call in next {
                let _ = call.reply.send(changed.clone());
            }
        }
    }

    async fn execute(
        &self,
        slot: &mut ConnectionSlot,
        kind: ChangeKind,
        changes: &[&Change],
    ) -> Result<ChangedOwners> {
        let one = match (kind, changes) {
            (ChangeKind::Grant, [change]) => Some((ACQUIRE_ONE, change)),
            (ChangeKind::Release, [change]) => Some((RELEASE_ONE, change)),
            _ => None,
        };
        if let Some((statement, change)) = one {
            let unix_now = self.clock.unix_micros();
            if slot.run(|| self.change_one(statement, change, unix_now)).await?.changed == 1 {
                let token = FencingToken::new(unix_now.unsigned_abs());
                return Ok(Arc::new(HashMap::from([(change.0.owner(), token)])));
            }
            if kind == ChangeKind::Release {
                return Ok(ChangedOwners::default());
            }
        }
        let done = slot.run(|| self.change_all(kind, changes)).await?;
        let read = |row: &SqliteRow| Ok((read_owner(row.try_get(0)?)?, read_token(row.try_get(1)?)?));
        let changed: Result<HashMap<_, _>, sqlx::Error> = done.rows.iter().map(read).collect();
        changed.map(Arc::new).map_err(|error| self.unreadable(error))
    }

    fn change_one(&self, statement: &str, (claim, time): &Change, unix_now: i64) -> SqliteQuery {
        let now = self.clock.now();
        let query = self.query(statement).bind(self.stored_name(claim.name()));
        let query = query.bind(claim.owner().to_bytes().to_vec());
        let query = query.bind(end(now, *time)).bind(now.0).bind(self.clock.boot());
        query.bind(unix_now).bind(claim.holder().to_string())
    }

    /// The claims are one parameter in JSON: the driver asks SQLite for the name of each, which takes longer than the statement.
    fn change_all(&self, kind: ChangeKind, changes: &[&Change]) -> SqliteQuery {
        let now = self.clock.now();
        let claims: Vec<_> = changes
            .iter()
            .map(|(claim, time)| {
                let name = hex(&self.stored_name(claim.name()));
                let holder = if kind == ChangeKind::Grant { &**claim.holder() } else { "" };
                (name, claim.owner().to_hex(), end(now, *time), holder)
            })
            .collect();
        let query = self.query(match kind {
            ChangeKind::Renew => include_str!("renew.sql"),
            ChangeKind::Release => include_str!("release.sql"),
            ChangeKind::Grant => include_str!("acquire.sql"),
        });
        let query = query.bind(serde_json::json!(claims).to_string()).bind(now.0);
        query.bind(self.clock.boot()).bind(self.clock.unix_micros())
    }
}

/// Zero for no linger, not the time now: for a process that has read the clock a moment earlier, that is not over yet.
fn end(now: HostTime, time: Duration) -> i64 {
    if time.is_zero() { 0 } else { now.plus(time).0 }
}
