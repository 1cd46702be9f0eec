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
//! * *A hold is granted on a lease that has ended* (etcd 11456, 19597): every grant extends the lease beside the read that shows
//!   the key, and counts only with the proof of [`Link::prove`].
//! * *The answer to a create is lost*: the key is the claim's own, by its name and value, and is not created twice.
//! * *A name used again hides the next holder*: a key is released by its create revision.

use crate::claims::{ClaimEntry, ClaimTable, OwnKey, token};
use crate::failure::{EtcdError, EtcdResult};
use crate::keys::{self, Directory};
use crate::leases::{self, Lease, Leases};
use crate::link::{Link, Proven};
use crate::members::{Members, Repeat};
use crate::notifier::Signal;
use crate::release;
use crate::watches::Watches;
use crate::wire::{KeyValue, RangeRequest, TxnRequest};
use leasehold_core::{Attempt, Busy, Claim, Clock, Error, ErrorKind, Grant, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// The most steps of one attempt, on a queue or a cluster that changes meanwhile.
const MAX_ROUNDS: usize = 8;
/// The length of a waiter's lease, if its ttl is shorter. Nothing but the waiter's own question extends it.
const MIN_WAITING_SECONDS: i64 = 3;
/// A waiter on a lease of less than this is told to ask sooner than at the fallback interval.
const LONG_WAITING_SECONDS: i64 = 15;

/// What all attempts share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) members: Members,
    pub(crate) leases: Leases,
    pub(crate) watches: Arc<Watches>,
    pub(crate) claims: ClaimTable,
}

/// One attempt of one claim.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) directory: Directory,
    pub(crate) claim: &'a Claim,
    pub(crate) entry: &'a ClaimEntry,
}

/// The state of the store that shows a key.
struct Seen {
    created_at: i64,
    revision: i64,
    link: Arc<Link>,
}

/// The outcome of step 1.
enum Created {
    /// The lock is held, and the claim does not wait for it.
    Refused,
    /// The key is the first, and its lease is extended.
    Holds(Seen),
    /// A key has been written, or its lease had ended: to be looked at.
    Unclear,
}

/// What a look at an existing key shows.
enum Look {
    Holds(Seen),
    /// Another key is in front, as of a revision that this member has shown.
    Waits {
        blocker: KeyValue,
        revision: i64,
        link: Arc<Link>,
    },
    /// The key or its lease is gone.
    Gone,
    /// A leader was elected meanwhile: nothing is proven.
    Unproven,
}

impl Recipe<'_> {
    /// Makes one attempt. `state` never says less than the store may have, so it is right also if this is dropped.
    pub(crate) async fn attempt(&self, state: &mut Option<OwnKey>, signal: Signal) -> EtcdResult<Attempt> {
        for _ in 0..MAX_ROUNDS {
            let Some(own) = state else {
                match (self.create(state).await?, &mut *state) {
                    (Created::Refused, _) => return Ok(Attempt::Busy(Busy::new())),
                    (Created::Holds(seen), Some(own)) => return Ok(self.grant(own, &seen)),
                    _ => continue,
                }
            };
            let Some(revision) = own.revision else {
                self.resolve(state).await?;
                continue;
            };
            match self.look(own, revision).await? {
                Look::Holds(seen) => return Ok(self.grant(own, &seen)),
                Look::Waits { blocker, revision, link } => {
                    let is_watched = own.watch.as_ref().is_some_and(|watch| watch.is_on(&link));
                    if own.blocker != blocker.key || signal != Signal::Watched || !is_watched {
                        own.watch = None;
                        let notifier = &self.entry.notifier;
                        own.watch =
                            Some(self.shared.watches.set(&link, blocker.key.clone(), revision, notifier));
                        own.blocker = blocker.key;
                    }
                    self.entry.notifier.watched();
                    return Ok(Attempt::Busy(busy(own.lease)));
                }
                Look::Gone => *state = None,
                Look::Unproven => {}
            }
        }
        let message = "the leader of the cluster, or the queue of the lock, changes all the time";
        Err(EtcdError::NotDone(Error::new(ErrorKind::Unavailable, message).with_help("look at the members")))
    }

    /// Extends a hold to a longer ttl. False if it is lost.
    pub(crate) async fn prolong(&self, own: &mut OwnKey) -> EtcdResult<bool> {
        for _ in 0..MAX_ROUNDS {
            let Some(revision) = own.revision else { return Ok(false) };
            match self.look(own, revision).await? {
                Look::Holds(_) => return Ok(true),
                Look::Waits { .. } | Look::Gone => return Ok(false),
                Look::Unproven => {}
            }
        }
        let message = "the leader of the cluster changes all the time";
        Err(EtcdError::NotDone(Error::new(ErrorKind::Unavailable, message).with_help("look at the members")))
    }

    /// Step 1.
    async fn create(&self, state: &mut Option<OwnKey>) -> EtcdResult<Created> {
        let (seconds, waits) = (leases::seconds(self.claim.ttl()), self.claim.waits());
        if !waits {
            // A read leaves nothing: a refused attempt costs no write.
            let found = self.ask(self.conflicting().oldest()).await?;
            if let Some(oldest) = found.first() {
                return Ok(if self.adopt(oldest, state) { Created::Unclear } else { Created::Refused });
            }
        }
        // A waiter's lease is longer than that of a short hold, which thus tries first whether it need not wait.
        if !waits || seconds < MIN_WAITING_SECONDS {
            let created = self.write(state, seconds, true).await?;
            if !matches!(created, Created::Refused) || !waits {
                return Ok(created);
            }
        }
        self.write(state, seconds.max(MIN_WAITING_SECONDS), false).await
    }

    /// Writes a key on a lease without one; if `only_if_free`, then only if nothing conflicts with it.
    async fn write(
        &self,
        state: &mut Option<OwnKey>,
        seconds: i64,
        only_if_free: bool,
    ) -> EtcdResult<Created> {
        let lease = self.shared.leases.take(&self.shared.members, seconds).await?;
        let key = self.directory.key(self.claim.mode(), lease.id);
        let own = state.insert(OwnKey::new(key, keys::value_of(self.claim), lease));
        let mut compare = vec![keys::created_at(&own.key, 0)];
        compare.extend(only_if_free.then(|| self.conflicting().none()));
        let written = vec![
            keys::put(&own.key, &own.value, lease.id),
            keys::read_key(&own.key),
            keys::read(self.conflicting().oldest()),
        ];
        let txn = TxnRequest { compare, success: written, failure: vec![keys::read_key(&own.key)] };
        let sent_at = SystemClock::new().now();
        let (answer, is_unsure) = prove(&self.shared.members, &[lease.id], txn).await;
        own.is_unsure |= is_unsure;
        let (proven, link) = match answer {
            Ok(proven) => proven,
            Err(EtcdError::Unknown(error)) => {
                own.is_unsure = true;
                return Err(EtcdError::Unknown(error));
            }
            Err(error) if own.is_unsure => return Err(error),
            Err(error) => {
                *state = None;
                return if matches!(error, EtcdError::NoLease) { Ok(Created::Unclear) } else { Err(error) };
            }
        };
        let at = proven.revision;
        let (is_written, is_extended) = (proven.answer.succeeded, proven.extended == Some(vec![true]));
        let mut found = proven.answer.ranges().into_iter().map(|keys| keys.into_iter().next());
        let (key, oldest) = (found.next().flatten(), found.next().flatten());
        match key {
            Some(key) if is_written || own.is_unsure => own.revision = Some(key.create_revision),
            // A key on this lease that another claim has written.
            Some(_) => {
                *state = None;
                return Ok(Created::Unclear);
            }
            None => {
                if !own.is_unsure {
                    self.shared.leases.keep(lease.extended_at(sent_at));
                    *state = None;
                }
                return Ok(if only_if_free { Created::Refused } else { Created::Unclear });
            }
        }
        own.lease = lease.extended_at(sent_at);
        let Some(revision) = own.revision.filter(|_| is_written) else { return Ok(Created::Unclear) };
        let seen = Seen { created_at: revision, revision: at, link };
        match oldest.filter(|oldest| oldest.key != own.key) {
            None if is_extended => return Ok(Created::Holds(seen)),
            // The claim has an older key, written by another client of ours.
            Some(oldest) if keys::parse_value(&oldest.value).0 == Some(self.claim.owner()) => {
                release::delete(&self.shared.members, &own.key, revision).await?;
                self.adopt(&oldest, state);
            }
            _ => {}
        }
        Ok(Created::Unclear)
    }

    /// Takes a key that this claim wrote by another client.
    fn adopt(&self, found: &KeyValue, state: &mut Option<OwnKey>) -> bool {
        if keys::parse_value(&found.value).0 != Some(self.claim.owner()) {
            return false;
        }
        let seconds = leases::seconds(self.claim.ttl());
        let lease = Lease { id: found.lease, seconds, lives_until: SystemClock::new().now() };
        let own = state.insert(OwnKey::new(found.key.clone(), found.value.clone(), lease));
        own.revision = Some(found.create_revision);
        own.is_unsure = true;
        true
    }

    /// A write without an answer: was it carried out?
    async fn resolve(&self, state: &mut Option<OwnKey>) -> EtcdResult<()> {
        let Some(own) = state else { return Ok(()) };
        let range = RangeRequest { key: own.key.clone(), ..RangeRequest::default() };
        match self.ask(range).await?.into_iter().next() {
            Some(found) if found.value == own.value => own.revision = Some(found.create_revision),
            _ => {
                leases::revoke(&self.shared.members, own.lease.id).await?;
                *state = None;
            }
        }
        Ok(())
    }

    /// Steps 2 and 4, and the extension of the lease. A hold gets a lease of its own length: a longer one than a waiter's or
    /// than before, or a shorter one than a waiter's.
    async fn look(&self, own: &mut OwnKey, revision: i64) -> EtcdResult<Look> {
        let needed = leases::seconds(self.claim.ttl());
        let moves = own.lease.seconds < needed || (!own.holds && own.lease.seconds > needed);
        let next =
            if moves { self.shared.leases.take(&self.shared.members, needed).await? } else { own.lease };
        let then = if moves { keys::put(&own.key, &own.value, next.id) } else { keys::read_key(&own.key) };
        let mut compare = vec![keys::created_at(&own.key, revision)];
        compare.extend((!own.is_first).then(|| self.conflicting().none_before(revision)));
        let txn = TxnRequest {
            compare,
            success: vec![then],
            failure: vec![keys::read_key(&own.key), keys::read(self.conflicting().in_front_of(revision))],
        };
        let mut extend = vec![own.lease.id];
        extend.extend(moves.then_some(next.id));
        let sent_at = SystemClock::new().now();
        if moves {
            own.left.push(next);
        }
        let (answer, is_unsure) = prove(&self.shared.members, &extend, txn).await;
        own.is_unsure |= moves && (is_unsure || matches!(answer, Err(EtcdError::Unknown(_))));
        let (proven, link) = match answer {
            // The lease to which the key was to be moved has ended.
            Err(EtcdError::NoLease) => {
                own.left.pop();
                return Ok(Look::Unproven);
            }
            answer => answer?,
        };
        let extended = proven.extended;
        let lives = |index: usize| extended.as_ref().map(|extended| extended.get(index) == Some(&true));
        let is_done = proven.answer.succeeded;
        let mut found = proven.answer.ranges().into_iter().map(|keys| keys.into_iter().next());
        if moves && (is_done || !own.is_unsure) {
            own.left.retain(|lease| lease.id != next.id);
        }
        if moves && !is_done && !own.is_unsure {
            self.shared.leases.keep(next.extended_at(sent_at));
        }
        if is_done && moves {
            own.left.push(std::mem::replace(&mut own.lease, next));
        } else {
            let Some(key) = found.next().flatten().filter(|key| key.create_revision == revision) else {
                return Ok(Look::Gone);
            };
            // An earlier change of the lease, whose answer was lost, was carried out.
            if let Some(lease) = own.left.iter().position(|lease| lease.id == key.lease) {
                std::mem::swap(&mut own.lease, &mut own.left[lease]);
                return Ok(Look::Unproven);
            }
        }
        let Some(is_extended) = lives(usize::from(moves && is_done)) else { return Ok(Look::Unproven) };
        if !is_extended {
            return Ok(Look::Gone);
        }
        own.lease = own.lease.extended_at(sent_at);
        let at = proven.revision;
        match found.next().flatten() {
            Some(blocker) if !is_done => return Ok(Look::Waits { blocker, revision: at, link }),
            // A comparison with an empty range, of the writers in front of a reader, is never true.
            _ => own.is_first = true,
        }
        let seen = Seen { created_at: revision, revision: at, link };
        Ok(if is_done || !moves { Look::Holds(seen) } else { Look::Unproven })
    }

    /// The deletion of the key is told from now on.
    fn grant(&self, own: &mut OwnKey, seen: &Seen) -> Attempt {
        if !own.holds {
            own.holds = true;
            own.watch = None;
            let notifier = &self.entry.notifier;
            notifier.begin_hold();
            own.watch = Some(self.shared.watches.set(&seen.link, own.key.clone(), seen.revision, notifier));
            notifier.watched();
        }
        Attempt::Granted(Grant::new(token(seen.created_at)))
    }

    fn conflicting(&self) -> keys::Keys {
        self.directory.conflicting(self.claim.mode())
    }

    async fn ask(&self, range: RangeRequest) -> EtcdResult<Vec<KeyValue>> {
        let range = &range;
        let answer = self.shared.members.ask(|link| async move { link.call(range.clone()).await }).await;
        // A read leaves nothing behind.
        answer.map(|answer| answer.kvs).map_err(EtcdError::of_read)
    }
}

/// A waiter whose lease is short asks again in time for it.
fn busy(lease: Lease) -> Busy {
    let busy = Busy::new().with_place_in_queue();
    match lease.seconds < LONG_WAITING_SECONDS {
        true => busy.with_end(Duration::from_secs(lease.seconds.unsigned_abs()) / 3),
        false => busy,
    }
}

/// A transaction beside the extension of leases, of one member.
pub(crate) async fn prove(
    members: &Members,
    leases: &[i64],
    txn: TxnRequest,
) -> (EtcdResult<(Proven, Arc<Link>)>, bool) {
    let txn = &txn;
    members
        .run(Repeat::Yes, |link| async move {
            let proven = link.prove(leases, txn.clone()).await?;
            Ok((proven, link))
        })
        .await
}
