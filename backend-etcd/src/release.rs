//! The end of a claim: step 5 of the recipe.

use crate::claims::OwnKey;
use crate::failure::{EtcdError, EtcdResult};
use crate::keys::{self, Directory};
use crate::leases;
use crate::members::{Members, Repeat};
use crate::recipe::Shared;
use crate::wire::{Compare, KeyValue, RangeRequest, RequestOp, TxnRequest, TxnResponse};
use leasehold_core::{Claim, LockMode, OwnerId};
use std::time::Duration;

/// The keys of one page of a range.
const PAGE: i64 = 1000;

/// Ends a claim whose key is known. True if it held the lock, or may have: it was the first.
pub(crate) async fn end(
    shared: &Shared,
    directory: &Directory,
    claim: &Claim,
    own: &OwnKey,
    linger: Duration,
) -> EtcdResult<bool> {
    let Some(revision) = own.revision else { return end_unsure(shared, directory, claim, own).await };
    if own.holds && !linger.is_zero() {
        return keep_taken(shared, claim, own, revision, linger).await;
    }
    let existed = delete(&shared.members, &own.key, revision).await?;
    give_back(shared, own).await?;
    Ok(existed && own.holds)
}

/// Ends a claim whose key may be written only after this. The end of its lease refuses such a write.
async fn end_unsure(shared: &Shared, directory: &Directory, claim: &Claim, own: &OwnKey) -> EtcdResult<bool> {
    let oldest = directory.conflicting(claim.mode()).oldest();
    let steps = vec![keys::read(oldest), keys::delete(&own.key)];
    let answer = change(&shared.members, keys::has_value(&own.key, &own.value), steps).await?;
    leases::revoke(&shared.members, own.lease.id).await?;
    let was_deleted = answer.succeeded;
    let oldest = answer.ranges().into_iter().flatten().next();
    Ok(was_deleted && oldest.is_none_or(|oldest| oldest.key == own.key))
}

/// The key loses its owner, and lives on a lease that nobody extends. Its leases are not used again.
async fn keep_taken(
    shared: &Shared,
    claim: &Claim,
    own: &OwnKey,
    revision: i64,
    linger: Duration,
) -> EtcdResult<bool> {
    let lease = shared.leases.take(&shared.members, leases::seconds(linger)).await?;
    let (compare, value) = (keys::created_at(&own.key, revision), keys::value_without_owner(claim));
    let txn = TxnRequest {
        compare: vec![compare],
        success: vec![keys::put(&own.key, &value, lease.id)],
        failure: Vec::new(),
    };
    // To write it twice does no harm: the value has no owner to whom it could come back.
    let (answer, _) = crate::recipe::prove(&shared.members, &[lease.id], txn).await;
    Ok(answer?.0.answer.succeeded)
}

/// Leases without a key are used again, unless a write on them may still be under way.
async fn give_back(shared: &Shared, own: &OwnKey) -> EtcdResult<()> {
    for lease in own.leases() {
        if own.is_unsure {
            leases::revoke(&shared.members, lease.id).await?;
        } else {
            shared.leases.keep(lease);
        }
    }
    Ok(())
}

/// Ends a claim of which this process knows nothing: by the owner in the values. True if one of its keys held the lock.
pub(crate) async fn end_by_owner(
    members: &Members,
    directory: &Directory,
    owner: OwnerId,
) -> EtcdResult<bool> {
    let mut held = false;
    let queue = queue(members, directory).await?;
    let holders = holders(&queue);
    for (index, key) in queue.iter().enumerate() {
        if keys::parse_value(&key.value).0 == Some(owner) {
            held |= delete(members, &key.key, key.create_revision).await? && index < holders;
        }
    }
    Ok(held)
}

/// Deletes a key that was created at this revision. False if there is none.
pub(crate) async fn delete(members: &Members, key: &[u8], revision: i64) -> EtcdResult<bool> {
    let answer = change(members, keys::created_at(key, revision), vec![keys::delete(key)]).await?;
    Ok(answer.succeeded)
}

/// The caller repeats it after an unknown outcome, because the answer to the second one means something else.
async fn change(members: &Members, compare: Compare, steps: Vec<RequestOp>) -> EtcdResult<TxnResponse> {
    let txn = &TxnRequest { compare: vec![compare], success: steps, failure: Vec::new() };
    members.run(Repeat::No, |link| async move { link.call(txn.clone()).await }).await.0
}

/// The contenders of a lock, in their order.
pub(crate) async fn queue(members: &Members, directory: &Directory) -> EtcdResult<Vec<KeyValue>> {
    let mut queue = all(members, &directory.all()).await?;
    queue.sort_by_key(|key| key.create_revision);
    Ok(queue)
}

/// The keys of a range, as they were at one moment.
pub(crate) async fn all(members: &Members, range: &keys::Keys) -> EtcdResult<Vec<KeyValue>> {
    let (mut found, mut revision) = (Vec::new(), 0);
    loop {
        let after = found.last().map(|key: &KeyValue| key.key.clone());
        let page = &range.page(after, PAGE, revision);
        let answer = members.ask(|link| async move { link.call::<RangeRequest>(page.clone()).await }).await;
        let answer = match answer {
            // The page was compacted away between two reads.
            Err(EtcdError::Refused(_)) if revision != 0 => {
                (found, revision) = (Vec::new(), 0);
                continue;
            }
            answer => answer?,
        };
        if revision == 0 {
            revision = answer.header.map_or(0, |header| header.revision);
        }
        found.extend(answer.kvs);
        if !answer.more {
            return Ok(found);
        }
    }
}

/// How many contenders at the beginning of a queue hold the lock: a writer, or all readers in front of the first writer.
pub(crate) fn holders(queue: &[KeyValue]) -> usize {
    let modes = || queue.iter().map(Directory::mode_of);
    match modes().next() {
        Some(LockMode::Shared) => modes().take_while(|mode| mode.is_shared()).count(),
        Some(_) => 1,
        None => 0,
    }
}
