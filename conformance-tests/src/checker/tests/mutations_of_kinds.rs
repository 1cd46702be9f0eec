//! Mutations of histories of readers and writers, and of semaphores.

use super::script::MILLI;
use crate::history::{AcquireOutcome, Acquisition, Call, History, HoldRecord, Written};
use fastrand::Rng;
use leasehold_core::LockMode;
use std::collections::BTreeSet;

/// The grants of one name in the order of their tokens.
pub(super) fn grants(history: &History, rng: &mut Rng) -> Vec<usize> {
    let names: BTreeSet<&str> = history.acquisitions.iter().map(|one| one.name.as_str()).collect();
    let name = rng.choice(names);
    let mut grants: Vec<usize> = (0..history.acquisitions.len())
        .filter(|index| Some(history.acquisitions[*index].name.as_str()) == name)
        .filter(|index| history.acquisitions[*index].is_granted())
        .collect();
    grants.sort_by_key(|index| history.acquisitions[*index].hold.token);
    grants
}

pub(super) fn hold(history: &mut History, index: usize) -> &mut HoldRecord {
    &mut history.acquisitions[index].hold
}

pub(super) fn released(grant: &Acquisition) -> Option<&Call> {
    grant.hold.released()
}

/// From the answer on, and for how long the store cannot have ended it.
fn certainly_held(one: &Acquisition) -> Option<(u64, u64)> {
    Some((one.answered_by(), released(one)?.asked_at.min(one.asked_at + 900 * MILLI)))
}

/// Two grants of one name of which the second was asked for and answered while the first was certainly held.
fn overlapping(history: &History, rng: &mut Rng) -> Option<(usize, usize)> {
    let grants = grants(history, rng);
    let within = |outer: &Acquisition, inner: &Acquisition| {
        certainly_held(outer).is_some_and(|(from, to)| {
            from < inner.asked_at && inner.answered_by() + 1 < to && released(inner).is_some()
        })
    };
    let pairs = grants.iter().flat_map(|one| grants.iter().map(move |next| (*one, *next)));
    let pairs = pairs.filter(|(one, next)| within(&history.acquisitions[*one], &history.acquisitions[*next]));
    rng.choice(pairs.collect::<Vec<_>>())
}

/// The second of two readers writes.
pub(super) fn report_as_exclusive(history: &mut History, rng: &mut Rng) -> bool {
    let Some((_, next)) = overlapping(history, rng) else { return false };
    history.acquisitions[next].mode = LockMode::Exclusive;
    true
}

/// The next writer is granted the lock while a reader certainly holds it, and believes so.
pub(super) fn write_beside_a_reader(history: &mut History, rng: &mut Rng) -> bool {
    let grants = grants(history, rng);
    let is_shared = |index: usize| history.acquisitions[index].mode.is_shared();
    let pairs = grants.windows(2).filter(|pair| is_shared(pair[0]) && !is_shared(pair[1]));
    let held = pairs.filter_map(|pair| Some((pair[1], certainly_held(&history.acquisitions[pair[0]])?)));
    let held: Vec<_> = held.filter(|(_, (from, to))| from + 1 < *to).collect();
    let Some((writer, (from, _))) = rng.choice(held) else { return false };
    let writer = &mut history.acquisitions[writer];
    writer.asked_at = from.min(writer.asked_at);
    writer.answered_at = Some(from);
    true
}

/// Without a writer anywhere, whom it may have met.
pub(super) fn refuse_a_reader(history: &mut History, rng: &mut Rng) -> bool {
    let Some((one, _)) = overlapping(history, rng) else { return false };
    let mut refused = history.acquisitions[one].clone();
    let at = refused.answered_by() + 1;
    (refused.op, refused.asked_at, refused.answered_at) = (0, at, Some(at + 1));
    refused.outcome = AcquireOutcome::Contended;
    let was_shared = refused.mode.is_shared();
    history.acquisitions.push(refused);
    was_shared && !history.acquisitions.iter().any(|one| one.outcome == AcquireOutcome::Unknown)
}

/// A reader's and a writer's operation on one counter; `later` if the reader saw what was written, else it read before.
fn read_and_written<'a>(
    history: &'a mut History,
    rng: &mut Rng,
    later: bool,
) -> Option<(Written, &'a mut Written)> {
    let reads = history.writes.iter().map(|write| write.what.clone());
    let read =
        rng.choice(reads.filter(|what| what.wrote.is_some() && what.mode.is_shared()).collect::<Vec<_>>())?;
    let of_it = |what: &&mut Written| {
        what.wrote.is_some()
            && what.resource == read.resource
            && !what.mode.is_shared()
            && (what.wrote <= read.wrote) == later
    };
    let writes = history.writes.iter_mut().map(|write| &mut write.what).filter(of_it);
    let write = rng.choice(writes.collect::<Vec<_>>())?;
    Some((read, write))
}

pub(super) fn write_after_a_newer_reader(history: &mut History, rng: &mut Rng) -> bool {
    read_and_written(history, rng, false).map(|(read, write)| write.token = read.token - 1).is_some()
}

pub(super) fn read_after_a_newer_writer(history: &mut History, rng: &mut Rng) -> bool {
    read_and_written(history, rng, true).map(|(read, write)| write.token = read.token + 1).is_some()
}

/// A holder has a slot that no semaphore of so many permits has.
pub(super) fn grant_one_permit_more(history: &mut History, rng: &mut Rng) -> bool {
    let grants = grants(history, rng);
    let Some(one) = rng.choice(grants) else { return false };
    let limit = history.acquisitions[one].permits;
    hold(history, one).slot = limit;
    true
}

pub(super) fn grant_a_slot_twice(history: &mut History, rng: &mut Rng) -> bool {
    let Some((one, next)) = overlapping(history, rng) else { return false };
    let (first, second) = (hold(history, one).clone(), hold(history, next));
    (second.slot, second.token) = (first.slot, first.token + 1);
    // Only if it is the next one of that slot.
    let between = |hold: &HoldRecord| hold.slot == first.slot && hold.token == first.token + 1;
    history.grants().filter(|grant| between(&grant.hold)).count() == 1
}
