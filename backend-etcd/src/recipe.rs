//! The lock recipe of etcd's own `concurrency` package, with the corrections that it needs.
//!
//! 1. Create a key in the lock's directory, on a lease of its own.
//! 2. If no older key there conflicts with it, its claim holds the lock: no key can become older.
//! 3. Else watch the youngest of the older ones, and no other: a deletion wakes one writer, or one reader of each.
//! 4. When the watch fires, look again: the key in front may have gone without ever holding the lock.
//! 5. To release, delete the key, by the revision at which it was created.
//!
//! The corrections. Each of these faults is in a lock that people use:
//!
//! * *A hold is granted on a lease that has ended* (etcd 11456, 19597): every grant and every renewal extends the lease beside the
//!   request that shows the key, and counts only if [both answers](crate::connection::Client::txn_and_keep_alive) have one leader.
//! * *The answer to a create is lost*: the same key is written again, unless it is there.
//! * *A create is carried out after its release*: the end of its lease refuses it.
//! * *A name used again hides the next holder*: a key is deleted, and looked for, by its create revision.

use crate::claims::{OwnKey, Place};
use crate::etcd_error::{EtcdError, EtcdResult, outage};
use crate::keys::{self, Directory};
use crate::leases::{self, Leases};
use crate::members::{Members, Proof};
use crate::rpc::{KeyValue, RANGE, RangeRequest, RequestOp, TxnRequest};
use crate::watches::Watch;
use leasehold_core::{Attempt, Busy, Claim, Grant, OwnerId};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// The most steps of one call, on a queue or a cluster that changes meanwhile.
const MAX_STEPS: usize = 8;
/// A waiter on a lease of less than this is told to ask sooner than at the fallback interval: nothing else extends its lease.
const LONG_LEASE: i64 = 15;
/// The shortest lease of a waiter. On a shorter one it would lose its place between two questions.
const MIN_WAITING_SECONDS: i64 = 3;

/// One call for one claim.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) members: &'a Members,
    pub(crate) leases: &'a Leases,
    pub(crate) directory: Directory,
    pub(crate) claim: &'a Claim,
    /// Takes the owner of a hold that may be over.
    pub(crate) suspect: &'a UnboundedSender<OwnerId>,
}

/// The outcome of a step.
enum Step {
    /// The key is the first, on a lease of the right length that is extended.
    Holds,
    /// An older key conflicts with it, and is watched.
    Waits,
    /// Another claim holds the lock, and this one does not wait: it has no key.
    Refused,
    /// The key or its lease has ended.
    Gone,
    /// Nothing is proven: a leader was elected meanwhile, or another step is needed.
    Unproven,
}

impl Recipe<'_> {
    /// Makes one attempt. `state` never says less than the store may have, so it is right also if this is dropped.
    pub(crate) async fn attempt(&self, state: &mut Option<OwnKey>) -> EtcdResult<Attempt> {
        for _ in 0..MAX_STEPS {
            let step = match state.as_mut().and_then(|own| Some((own.revision?, own))) {
                Some((revision, own)) => self.look(own, revision).await?,
                None => self.create(state).await?,
            };
            match (step, &mut *state) {
                (Step::Holds, Some(OwnKey { revision: Some(revision), is_granted, .. })) => {
                    *is_granted = true;
                    return Ok(Attempt::Granted(Grant::new(keys::token(*revision))));
                }
                (Step::Waits, Some(own)) => return Ok(Attempt::Busy(busy(own.lease.seconds))),
                (Step::Refused, _) => return Ok(Attempt::Busy(Busy::new())),
                (Step::Gone, _) => *state = None,
                _ => {}
            }
        }
        Err(unsteady())
    }

    /// Extends a hold. False if it is lost.
    pub(crate) async fn renew(&self, own: &mut OwnKey) -> EtcdResult<bool> {
        for _ in 0..MAX_STEPS {
            let Some(revision) = own.revision.filter(|_| own.place == Place::First) else { return Ok(false) };
            match self.look(own, revision).await? {
                Step::Holds => return Ok(true),
                Step::Gone => return Ok(false),
                Step::Waits | Step::Refused | Step::Unproven => {}
            }
        }
        Err(unsteady())
    }

    /// True if the key is the first, and a read of it beside the extension of its lease shows that it lives: [`renew`](Self::renew)
    /// without a request. False: not proven.
    pub(crate) fn lives(&self, own: &mut OwnKey, found: &[KeyValue], proof: &Proof) -> bool {
        own.place == Place::First
            && found.iter().any(|key| Some(key.create_revision) == own.revision)
            && matches!(self.conclude(own, proof), Step::Holds)
    }

    /// Step 1. A claim that does not wait writes no key while another one conflicts with it.
    async fn create(&self, state: &mut Option<OwnKey>) -> EtcdResult<Step> {
        let waits = self.claim.waits();
        if state.is_none() {
            // A read is no commit: a refused attempt costs the members no write.
            let others = (!waits).then(|| self.members.call(&RANGE, keys::youngest(self.conflicting(), 1)));
            if let Some(others) = others
                && !others.await.map_err(EtcdError::of_read)?.kvs.is_empty()
            {
                return Ok(Step::Refused);
            }
            let seconds = self.seconds().max(if waits { MIN_WAITING_SECONDS } else { 0 });
            let lease = self.leases.take(self.members, seconds).await?;
            let key = self.directory.key(self.claim.mode(), lease.id);
            *state = Some(OwnKey::new(key, keys::value_of(self.claim), lease));
        }
        let Some(own) = state else { return Ok(Step::Unproven) };
        let mut compare = vec![keys::created_at(&own.key, 0)];
        compare.extend((!waits).then(|| keys::is_empty(self.conflicting())));
        // The youngest is the key itself, unless it is a reader's.
        let in_front = keys::read(keys::youngest(self.conflicting(), 2));
        let success = vec![keys::put(&own.key, &own.value, own.lease.id), in_front];
        let txn = TxnRequest { compare, success, failure: vec![keys::read_key(&own.key)] };
        let was_unsure = std::mem::replace(&mut own.is_unsure, true);
        let (answer, was_repeated) = self.members.prove(&txn, &[own.lease.id]).await;
        own.is_unsure = was_unsure || was_repeated || matches!(answer, Err(EtcdError::Unknown(_)));
        let proof = match answer {
            // What an earlier write may have put on it has ended with it.
            Err(EtcdError::NoLease) => return Ok(Step::Gone),
            Err(error) if own.is_unsure => return Err(error),
            Err(error) => {
                *state = None;
                return Err(error);
            }
            Ok(proof) => proof,
        };
        let found = proof.ranges().next().unwrap_or_default();
        if proof.answer.succeeded {
            own.revision = Some(proof.revision());
            own.place = place(found.iter().find(|other| other.key != own.key));
            return Ok(self.conclude(own, &proof));
        }
        // An earlier write was carried out.
        own.revision = found.first().map(|key| key.create_revision);
        if own.revision.is_some() {
            return Ok(Step::Unproven);
        }
        self.drop_lease(own).await?;
        *state = None;
        Ok(Step::Refused)
    }

    /// Steps 2 to 4, and the extension of the lease.
    async fn look(&self, own: &mut OwnKey, revision: i64) -> EtcdResult<Step> {
        if own.place == Place::First && self.needs_other_lease(own) {
            return self.move_to_other_lease(own, revision).await;
        }
        let older = RangeRequest { max_create_revision: revision - 1, ..self.conflicting() };
        let look = || vec![keys::read_key(&own.key), keys::read(keys::youngest(older.clone(), 1))];
        let mut compare = vec![keys::created_at(&own.key, revision)];
        let (success, failure) = match &own.place {
            // Without any read, etcd takes a transaction for one that need not be linearizable.
            Place::First => (vec![keys::read_key(&own.key)], Vec::new()),
            Place::Unknown => (look(), Vec::new()),
            // The cost is the same in a queue of any length, as long as the key in front stays.
            Place::Behind(key, created) => {
                compare.push(keys::created_at(key, *created));
                (Vec::new(), look())
            }
        };
        let txn = TxnRequest { compare, success, failure };
        let proof = self.members.prove(&txn, &[own.lease.id]).await.0.map_err(EtcdError::of_read)?;
        let found: Vec<Option<&KeyValue>> = proof.ranges().map(<[_]>::first).collect();
        match *found {
            [] | [_] if proof.answer.succeeded => {}
            [Some(key), in_front] if key.create_revision == revision => own.place = place(in_front),
            _ => return Ok(Step::Gone),
        }
        Ok(self.conclude(own, &proof))
    }

    /// A lease has a fixed length, so a hold that becomes longer, or is shorter than its wait, needs another one. The old one ends by
    /// itself: its number may be in the name of the key, and must not be used again before. A move without an answer is repeated to the same lease; a repetition that comes late
    /// finds the key on a later lease, and does nothing.
    async fn move_to_other_lease(&self, own: &mut OwnKey, revision: i64) -> EtcdResult<Step> {
        let next = match own.next_lease {
            Some(next) => next,
            None => self.leases.take(self.members, self.seconds()).await?,
        };
        own.next_lease = Some(next);
        let txn = TxnRequest {
            compare: vec![keys::created_at(&own.key, revision), keys::lives_on(&own.key, own.lease.id)],
            success: vec![keys::put(&own.key, &own.value, next.id)],
            failure: vec![keys::read_key(&own.key)],
        };
        let proof = match self.members.prove(&txn, &[next.id]).await.0 {
            Err(EtcdError::NoLease) => {
                own.next_lease = None;
                return Ok(Step::Unproven);
            }
            proof => proof?,
        };
        let is_moved = |key: &KeyValue| key.create_revision == revision && key.lease == next.id;
        if !proof.answer.succeeded && !proof.ranges().flatten().any(is_moved) {
            return Ok(Step::Gone);
        }
        if std::mem::take(&mut own.is_unsure) {
            // Refuses a create that may still be carried out. If this fails, the end of the lease does.
            let _ = leases::revoke(self.members, own.lease.id).await;
        }
        (own.lease, own.next_lease) = (next, None);
        Ok(self.conclude(own, &proof))
    }

    /// The outcome of a step that has seen the key in its place, with a watch on the key in front, or on the own one of a holder.
    fn conclude(&self, own: &mut OwnKey, proof: &Proof) -> Step {
        match &proof.extended {
            None => return Step::Unproven,
            Some(extended) if !extended.contains(&own.lease.id) => return Step::Gone,
            Some(_) => own.lease = own.lease.extended_at(proof.sent_at),
        }
        let is_hold = own.place == Place::First;
        let key = if let Place::Behind(key, _) = &own.place { key } else { &own.key };
        let is_set = |watch: &Watch| watch.key == *key && proof.connection.watches.has(watch);
        if !own.watch.as_ref().is_some_and(is_set) {
            let hold = is_hold.then(|| (self.claim.owner(), self.suspect.clone()));
            own.watch = Some(proof.connection.watches.set(key.clone(), proof.revision(), hold));
        }
        match is_hold {
            true if self.needs_other_lease(own) => Step::Unproven,
            true => Step::Holds,
            false => Step::Waits,
        }
    }

    /// Step 5. True if the key held the lock. With `linger`, the lock of a holder stays taken for that time, without an owner.
    pub(crate) async fn end(&self, own: &OwnKey, linger: Duration) -> EtcdResult<bool> {
        let Some(revision) = own.revision else { return self.drop_lease(own).await.map(|()| false) };
        let holds = own.place == Place::First;
        if holds && !linger.is_zero() {
            // Nobody extends it.
            let lease = leases::grant(self.members, leases::seconds(linger)).await?;
            let released = keys::put(&own.key, &keys::value_without_owner(self.claim), lease.id);
            return change(self.members, &own.key, revision, released).await;
        }
        let existed = delete(self.members, &own.key, revision).await?;
        self.drop_lease(own).await?;
        Ok(existed && holds)
    }

    /// The lease of a key that is deleted, or was never written, is used again, unless a write on it may still be carried out.
    async fn drop_lease(&self, own: &OwnKey) -> EtcdResult<()> {
        if own.is_unsure {
            return leases::revoke(self.members, own.lease.id).await;
        }
        self.leases.keep(own.lease);
        Ok(())
    }

    fn conflicting(&self) -> RangeRequest {
        self.directory.conflicting(self.claim.mode())
    }

    fn needs_other_lease(&self, own: &OwnKey) -> bool {
        let needed = self.seconds();
        own.lease.seconds < needed || (!own.is_granted && own.lease.seconds > needed)
    }

    fn seconds(&self) -> i64 {
        leases::seconds(self.claim.ttl())
    }
}

/// The place of a key behind this one, the youngest that is older and conflicts with it.
fn place(in_front: Option<&KeyValue>) -> Place {
    in_front.map_or(Place::First, |key| Place::Behind(key.key.clone(), key.create_revision))
}

/// A waiter whose lease is short asks again in time for it.
fn busy(seconds: i64) -> Busy {
    let busy = Busy::new().with_place_in_queue();
    match seconds < LONG_LEASE {
        true => busy.with_end(Duration::from_secs(seconds.unsigned_abs()) / 3),
        false => busy,
    }
}

fn unsteady() -> EtcdError {
    let message = "the leader of the cluster, or the queue of the lock, changes all the time";
    EtcdError::NotDone(outage(message.to_owned()))
}

/// Deletes a key that was created at this revision. False if there is none.
pub(crate) async fn delete(members: &Members, key: &[u8], revision: i64) -> EtcdResult<bool> {
    change(members, key, revision, keys::delete(key)).await
}

/// Changes a key that was created at this revision. False if there is none. The caller repeats it after an unknown outcome, because
/// the second answer means something else.
async fn change(members: &Members, key: &[u8], revision: i64, step: RequestOp) -> EtcdResult<bool> {
    let compare = vec![keys::created_at(key, revision)];
    let txn = TxnRequest { compare, success: vec![step], failure: Vec::new() };
    Ok(members.txn_once(&txn).await?.succeeded)
}
