//! The lock recipe of etcd's own `concurrency` package, with the corrections that it needs.
//!
//! 1. Create a key in the lock's directory, on a lease of its own.
//! 2. If no older key there conflicts with it, its claim holds the lock: no key can become older.
//! 3. Else watch the youngest of the older ones, and no other: a deletion wakes the writer behind it, or the readers.
//! 4. When the watch fires, look again: the key in front may have gone without ever holding the lock.
//! 5. To release, delete the key, by the revision at which it was created.
//!
//! The corrections. Each of these faults is in a lock that people use:
//!
//! * *A hold is granted on a lease that has ended* (etcd 11456, 19597): every grant and every renewal extends the lease beside the
//!   request that shows the key, and counts only if [both answers](Connection::prove) have one leader, before the lease may have ended.
//! * *The answer to a create is lost*: the same key is written again, unless it is there.
//! * *A create arrives after the release*: the end of its lease refuses it.
//! * *A name used again hides the next holder*: a key is deleted, and looked for, by its create revision.

use crate::EtcdBackend;
use crate::claims::{self, OwnKey, Place};
use crate::connection::{Connection, Proof};
use crate::keys;
use crate::rpc::{KeyValue, RANGE, RangeRequest, RequestOp, TXN, TxnRequest};
use crate::server_error::{SLOW_HELP, is_ended_lease, is_out_of_space, of_read, outage};
use crate::watches::Watch;
use leasehold_core::{Attempt, Busy, Claim, Error, ErrorKind, Grant, Moment, Result};
use std::sync::Arc;
use std::time::Duration;

/// The most steps of one call, on a queue or a cluster that changes meanwhile, or that answers late.
const MAX_STEPS: usize = 8;
/// The shortest lease of a waiter. On a shorter one it would lose its place between two questions.
const MIN_WAITING_SECONDS: i64 = 3;

/// The outcome of a step.
enum Step {
    /// Granted to a key that is the first, on a lease of the right length that is extended; or busy.
    Done(Attempt),
    /// The key or its lease has ended, or the key is on a lease that is none of the claim's.
    Gone,
    /// No outcome yet: a leader was elected meanwhile, or another step is needed.
    Again,
}

impl EtcdBackend {
    /// Makes one attempt. `state` never says less than the store may have, so it is right also if the future is dropped.
    pub(crate) async fn attempt(&self, claim: &Claim, state: &mut Option<OwnKey>) -> Result<Attempt> {
        let mut is_late = false;
        for _ in 0..MAX_STEPS {
            let step = match state.as_mut().and_then(|own| Some((own.revision?, own))) {
                Some((revision, own)) => self.look(claim, own, revision).await?,
                None => self.create(claim, state).await?,
            };
            is_late = state.as_ref().is_some_and(|own| !own.lease.lives());
            match step {
                Step::Done(attempt) => return Ok(attempt),
                Step::Gone => *state = None,
                Step::Again => {}
            }
        }
        Err(no_outcome(claim, is_late))
    }

    /// Extends the lease of a hold. False if it is lost.
    pub(crate) async fn extend(&self, claim: &Claim, own: &mut OwnKey) -> Result<bool> {
        for _ in 0..MAX_STEPS {
            let Some(revision) = own.revision.filter(|_| own.place == Place::First) else { return Ok(false) };
            match self.look(claim, own, revision).await? {
                Step::Done(Attempt::Granted(_)) => return Ok(true),
                Step::Gone => return Ok(false),
                Step::Done(_) | Step::Again => {}
            }
        }
        Err(no_outcome(claim, !own.lease.lives()))
    }

    /// Step 1. A claim that does not wait writes no key while another one conflicts with it.
    async fn create(&self, claim: &Claim, state: &mut Option<OwnKey>) -> Result<Step> {
        let (members, waits) = (&self.members, claim.waits());
        if state.is_none() {
            if !waits {
                // A read is no commit: a refused attempt costs the members no write.
                let others = keys::youngest(self.names.conflicting(claim), 1);
                if !members.call(&RANGE, others).await.map_err(of_read)?.kvs.is_empty() {
                    return Ok(Step::Done(Attempt::Busy(Busy::new())));
                }
            }
            let seconds = claims::seconds(claim.ttl()).max(if waits { MIN_WAITING_SECONDS } else { 0 });
            let lease = self.claims.take_lease(members, seconds, Moment::ORIGIN).await?;
            *state = Some(OwnKey { key: self.names.key(claim, lease.id), lease, ..OwnKey::default() });
        }
        let Some(own) = state else { return Ok(Step::Again) };
        let mut compare = vec![keys::created_at(&own.key, 0)];
        compare.extend((!waits).then(|| keys::is_empty(self.names.conflicting(claim))));
        // Two, because the range of a writer contains the new key itself.
        let in_front = keys::read(keys::youngest(self.names.conflicting(claim), 2));
        let success = vec![keys::put(&own.key, claim, Some(claim.owner()), own.lease.id), in_front];
        let txn = TxnRequest { compare, success, failure: vec![keys::read_key(&own.key)] };
        let answer = members.prove(&txn, own.lease.id, &mut own.is_unsure).await;
        if is_ended_lease(&answer) {
            // A key that an earlier write without an answer may have made has ended with its lease.
            return Ok(Step::Gone);
        }
        let proof = answer?;
        let found = proof.ranges().next().unwrap_or_default();
        if proof.answer.succeeded {
            own.revision = Some(proof.revision());
            own.place = place(found.iter().find(|other| other.key != own.key));
            return Ok(self.conclude(claim, own, proof.revision(), &proof));
        }
        // An earlier write of ours was carried out, or another key conflicts.
        own.revision = found.first().map(|key| key.create_revision);
        if own.revision.is_some() {
            return Ok(Step::Again);
        }
        self.give_back_lease(own).await?;
        *state = None;
        Ok(Step::Done(Attempt::Busy(Busy::new())))
    }

    /// Steps 2 to 4, and the extension of the lease.
    async fn look(&self, claim: &Claim, own: &mut OwnKey, revision: i64) -> Result<Step> {
        if own.place == Place::First && (own.moving_to.is_some() || needs_other_lease(claim, own)) {
            return self.move_to_other_lease(claim, own, revision).await;
        }
        let older = RangeRequest { max_create_revision: revision - 1, ..self.names.conflicting(claim) };
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
        let proof = self.members.prove(&txn, own.lease.id, &mut false).await.map_err(of_read)?;
        let found: Vec<Option<&KeyValue>> = proof.ranges().map(<[_]>::first).collect();
        match *found {
            [] if proof.answer.succeeded => {}
            [Some(key)] if key.lease == own.lease.id => {}
            [Some(key), in_front] if key.create_revision == revision => own.place = place(in_front),
            _ => return Ok(Step::Gone),
        }
        Ok(self.conclude(claim, own, revision, &proof))
    }

    /// To a lease of another length, or one that certainly lives. That of a hold lives at least as long as the one before, in which the
    /// holder believes until the answer. A move that comes late finds the key on a later lease, and does nothing.
    async fn move_to_other_lease(&self, claim: &Claim, own: &mut OwnKey, revision: i64) -> Result<Step> {
        let (until, mut is_unsure) = (own.lease.lives_until, own.moving_to.is_some());
        let next = match own.moving_to {
            Some(next) => next,
            None => self.claims.take_lease(&self.members, claims::seconds(claim.ttl()), until).await?,
        };
        own.moving_to = Some(next);
        let txn = TxnRequest {
            compare: vec![keys::created_at(&own.key, revision), keys::lives_on(&own.key, own.lease.id)],
            success: vec![keys::put(&own.key, claim, Some(claim.owner()), next.id)],
            failure: vec![keys::read_key(&own.key)],
        };
        let answer = self.members.prove(&txn, next.id, &mut is_unsure).await;
        if is_ended_lease(&answer) || answer.as_ref().is_err_and(|it| !is_unsure || is_out_of_space(it)) {
            // This move will not be carried out any more. If it was, without space, the next look reports the hold as lost.
            own.moving_to = None;
        }
        if is_ended_lease(&answer) {
            return Ok(Step::Again);
        }
        let proof = answer?;
        let is_moved = |key: &KeyValue| key.create_revision == revision && key.lease == next.id;
        if !proof.answer.succeeded && !proof.ranges().flatten().any(is_moved) {
            return Ok(Step::Gone);
        }
        if own.is_unsure {
            // Refuses a create that may still be carried out. If this fails, the end of the lease does.
            let _ = claims::revoke(&self.members, own.lease.id).await;
        }
        // The old lease ends by itself. It is not kept: its number may be in the name of the key.
        (own.lease, own.moving_to, own.is_unsure) = (next, None, false);
        Ok(self.conclude(claim, own, revision, &proof))
    }

    /// The outcome of a step that has seen the key in its place, with a watch on the key in front, or on the holder's own key.
    fn conclude(&self, claim: &Claim, own: &mut OwnKey, created_at: i64, proof: &Proof) -> Step {
        match proof.is_extended {
            None => return Step::Again,
            Some(false) => return Step::Gone,
            Some(true) if own.lease.lives() => own.lease = own.lease.extended_at(proof.sent_at),
            // The lease may have ended before the answer, which is not counted: a hold moves to another lease.
            Some(true) => {}
        }
        let is_hold = own.place == Place::First;
        let key = if let Place::Behind(key, _) = &own.place { key } else { &own.key };
        let is_set = |watch: &Watch| watch.key == *key && proof.connection.watches.has(watch);
        if !own.watch.as_ref().is_some_and(is_set) {
            let hold = is_hold.then(|| (claim.owner(), Arc::clone(&self.claims.suspects)));
            own.watch = Some(proof.connection.watches.set(key.clone(), proof.revision(), hold));
        }
        // A watch whose stream has just ended would tell before the core knows of the hold.
        if is_hold && (needs_other_lease(claim, own) || !own.watch.as_ref().is_some_and(is_set)) {
            return Step::Again;
        }
        own.is_granted |= is_hold;
        // Nothing else extends the lease of a waiter.
        let ask_within = Duration::from_secs(own.lease.seconds.unsigned_abs()) / 3;
        Step::Done(match is_hold {
            true => Attempt::Granted(Grant::new(keys::token(created_at))),
            false => Attempt::Busy(Busy::new().with_place_in_queue().with_end(ask_within)),
        })
    }

    /// Step 5. True if this call ended a hold. With `linger`, the lock of a holder stays taken for that time, without an owner.
    pub(crate) async fn end(&self, claim: &Claim, own: &OwnKey, linger: Duration) -> Result<bool> {
        let Some(revision) = own.revision else { return self.give_back_lease(own).await.map(|()| false) };
        let holds = own.place == Place::First;
        if holds && !linger.is_zero() {
            // It is extended no more, and ends after that time.
            let lease = claims::grant(&self.members, claims::seconds(linger)).await?;
            let released = keys::put(&own.key, claim, None, lease.id);
            return match self.change(&own.key, revision, released).await {
                // The core would read `Lost` as another owner. Here the new lease has ended.
                Err(error) if error.kind() == ErrorKind::Lost => Err(error.with_kind(ErrorKind::Unavailable)),
                released => released,
            };
        }
        let existed = self.change(&own.key, revision, keys::delete(&own.key)).await?;
        self.give_back_lease(own).await?;
        Ok(existed && holds)
    }

    /// The lease of a key that is deleted, or was never written, is used again, unless a write on it may still be carried out.
    async fn give_back_lease(&self, own: &OwnKey) -> Result<()> {
        if own.is_unsure {
            return claims::revoke(&self.members, own.lease.id).await;
        }
        self.claims.keep_lease(own.lease);
        Ok(())
    }

    /// Changes a key that was created at this revision. False if there is none. The caller repeats it after an unknown outcome,
    /// because "no such key" may then be what the first call did.
    pub(crate) async fn change(&self, key: &[u8], revision: i64, change: RequestOp) -> Result<bool> {
        let compare = vec![keys::created_at(key, revision)];
        let txn = &TxnRequest { compare, success: vec![change], failure: Vec::new() };
        let request = |it: Arc<Connection>| async move { it.client.call(&TXN, txn.clone()).await };
        Ok(self.members.run(false, &mut false, request).await?.succeeded)
    }
}

/// The error of a call whose steps are used up. `is_late`: the lease may have ended before the last answer.
fn no_outcome(claim: &Claim, is_late: bool) -> Error {
    if !is_late {
        return outage("the leader of the cluster, or the queue of the lock, changes all the time");
    }
    let lease = claims::seconds(claim.ttl());
    outage(format!("the cluster's answers take longer than a lease of {lease} s lasts")).with_help(SLOW_HELP)
}

/// True unless the lease has the right length, certainly lives, and cannot be the one of a create that is carried out late: after the
/// release, that would take the lock for nobody.
fn needs_other_lease(claim: &Claim, own: &OwnKey) -> bool {
    let needed = claims::seconds(claim.ttl());
    let has_length = own.lease.seconds == needed || (own.is_granted && own.lease.seconds > needed);
    !has_length || own.is_unsure || !own.lease.lives()
}

/// The place of a key behind this one, the youngest that is older and conflicts with it.
fn place(in_front: Option<&KeyValue>) -> Place {
    in_front.map_or(Place::First, |key| Place::Behind(key.key.clone(), key.create_revision))
}
