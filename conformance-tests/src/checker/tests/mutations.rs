//! A valid history at random is accepted. With one thing changed in it that no lock does, it is rejected, by the rule
//! that is meant for it.

use super::mutations_of_kinds::{
    grant_a_slot_twice, grant_one_permit_more, grants, hold, read_after_a_newer_writer, refuse_a_reader,
    released, report_as_exclusive, write_after_a_newer_reader, write_beside_a_reader,
};
use super::random::{HistoryConfig, Kind, history};
use super::script::MILLI;
use super::{model, rules};
use crate::checker::{Rule, check};
use crate::history::{AcquireOutcome, Acquisition, Answer, Call, History, HoldRecord};
use fastrand::Rng;

/// Histories for each mutation. A hundred thousand in all are checked by the ignored test.
const ROUNDS: u64 = 300;

const READERS: Kind = Kind::Readers(60);
const PERMITS: Kind = Kind::Permits(2);

/// Changes one thing; false if there is no place for it in this history.
type Mutation = fn(&mut History, &mut Rng) -> bool;

const MUTATIONS: [(&str, Rule, Kind, Mutation); 22] = [
    ("two tokens swapped", Rule::TokenOrder, Kind::Locks, swap_tokens),
    ("a token given twice", Rule::TokenUnique, Kind::Locks, repeat_a_token),
    ("a grant before the release of the one before", Rule::Exclusion, Kind::Locks, grant_early),
    ("a release that never was", Rule::Exclusion, Kind::Locks, drop_a_release),
    ("a late release confirmed", Rule::OwnerOnly, Kind::Locks, confirm_a_late_release),
    ("a renewal confirmed after the lock was taken over", Rule::OwnerOnly, Kind::Locks, renew_after_the_next),
    ("a renewal confirmed after the lease was over", Rule::Resurrection, Kind::Locks, renew_when_over),
    ("a refusal with nobody there", Rule::Refusal, Kind::Locks, refuse_while_free),
    ("a refusal after its deadline", Rule::Deadline, Kind::Locks, refuse_late),
    ("a grant after its deadline", Rule::Deadline, Kind::Locks, grant_late),
    ("a holder that believes for too long", Rule::Belief, Kind::Locks, believe_too_long),
    ("a waiter that is not woken", Rule::WakeUp, Kind::Locks, wake_late),
    ("an older write accepted", Rule::Effects, Kind::Locks, swap_writes),
    ("a writer beside a reader", Rule::Exclusion, READERS, write_beside_a_reader),
    ("a writer beside a reader, by what they believe", Rule::Belief, READERS, write_beside_a_reader),
    ("a shared hold reported as exclusive", Rule::Exclusion, READERS, report_as_exclusive),
    ("a reader's token reused", Rule::TokenUnique, READERS, repeat_a_token),
    ("a reader refused beside readers", Rule::Refusal, READERS, refuse_a_reader),
    ("a stale writer after a reader", Rule::Effects, READERS, write_after_a_newer_reader),
    ("a stale reader after a writer", Rule::Effects, READERS, read_after_a_newer_writer),
    ("one permit more than there are", Rule::Exclusion, PERMITS, grant_one_permit_more),
    ("two holders of one slot", Rule::Exclusion, PERMITS, grant_a_slot_twice),
];

#[test]
fn every_mutation_is_rejected_by_the_rule_that_is_meant_for_it() {
    run(ROUNDS);
}

#[test]
#[ignore = "a hundred thousand histories: for an optimized build"]
fn every_mutation_is_rejected_in_a_hundred_thousand_histories() {
    run(100_000 / MUTATIONS.len() as u64 + 1);
}

fn run(rounds: u64) {
    for kind in [Kind::Locks, READERS, PERMITS] {
        let of_kind = MUTATIONS.into_iter().filter(|(_, _, of, _)| *of == kind);
        let mut left: Vec<_> = of_kind.map(|mutation| (mutation, 0)).collect();
        let mut seed = 0;
        while !left.is_empty() {
            seed += 1;
            let names: Vec<_> = left.iter().map(|((name, ..), done)| (name, done)).collect();
            assert!(seed < rounds * 200 + 1000, "of {seed} histories, too few have a place for {names:?}");
            let mut rng = Rng::with_seed(seed);
            let history = history(config(kind, &mut rng), &mut rng);
            let valid = check(&history, &model());
            assert!(valid.violations.is_empty(), "seed {seed}, a valid history: {valid}");
            for ((name, rule, _, mutate), done) in &mut left {
                let mut mutated = history.clone();
                if mutate(&mut mutated, &mut rng.clone()) {
                    let report = check(&mutated, &model());
                    assert!(rules(&report).contains(rule), "{name}, seed {seed}: {report}");
                    *done += 1;
                }
            }
            left.retain(|(_, done)| *done < rounds);
        }
    }
}

fn config(kind: Kind, rng: &mut Rng) -> HistoryConfig {
    HistoryConfig {
        clients: rng.u64(2..6),
        names: rng.u64(1..3),
        acquisitions: rng.u64(10..40),
        lost_answers: [0, 5][rng.usize(0..2)],
        accidents: [0, 10][rng.usize(0..2)],
        kind,
    }
}

/// Two neighbours that are as wanted, if there are such.
fn neighbours(
    history: &History,
    rng: &mut Rng,
    wanted: impl Fn(&Acquisition, &Acquisition) -> bool,
) -> Option<(usize, usize)> {
    let pairs: Vec<(usize, usize)> = grants(history, rng)
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .filter(|(one, next)| wanted(&history.acquisitions[*one], &history.acquisitions[*next]))
        .collect();
    rng.choice(pairs)
}

fn one_after_the_other(one: &Acquisition, next: &Acquisition) -> bool {
    one.answered_by() < next.asked_at
}

fn swap_tokens(history: &mut History, rng: &mut Rng) -> bool {
    let Some((one, next)) = neighbours(history, rng, one_after_the_other) else { return false };
    let (first, second) = (hold(history, one).token, hold(history, next).token);
    hold(history, one).token = second;
    hold(history, next).token = first;
    true
}

fn repeat_a_token(history: &mut History, rng: &mut Rng) -> bool {
    let Some((one, next)) = neighbours(history, rng, |_, _| true) else { return false };
    hold(history, next).token = hold(history, one).token;
    true
}

fn grant_early(history: &mut History, rng: &mut Rng) -> bool {
    let long = |one: &Acquisition, _: &Acquisition| {
        let release = released(one).map_or(0, |release| release.asked_at);
        release > one.answered_by() + 1 && release < one.asked_at + 900 * MILLI
    };
    let Some((one, next)) = neighbours(history, rng, long) else { return false };
    let answered = history.acquisitions[one].answered_by();
    let next = &mut history.acquisitions[next];
    next.asked_at = answered.min(next.asked_at);
    next.answered_at = Some(answered + 1);
    true
}

fn drop_a_release(history: &mut History, rng: &mut Rng) -> bool {
    let early = |one: &Acquisition, next: &Acquisition| {
        let never_renewed = one.hold.renewals.is_empty();
        released(one).is_some() && never_renewed && next.answered_by() < one.asked_at + 900 * MILLI
    };
    let Some((one, _)) = neighbours(history, rng, early) else { return false };
    hold(history, one).release = None;
    true
}

/// Someone held on for too long, somebody else took it, and then the release of the first was refused.
fn confirm_a_late_release(history: &mut History, rng: &mut Rng) -> bool {
    let late = |one: &Acquisition, next: &Acquisition| {
        let release = one.hold.release.as_ref();
        release
            .is_some_and(|release| release.answer == Answer::Failed && release.asked_at > next.answered_by())
    };
    let Some((one, _)) = neighbours(history, rng, late) else { return false };
    if let Some(release) = &mut hold(history, one).release {
        release.answer = Answer::Ok;
    }
    true
}

fn renew_after_the_next(history: &mut History, rng: &mut Rng) -> bool {
    let taken_over = |one: &Acquisition, next: &Acquisition| {
        released(one).is_none() && next.answered_by() < u64::MAX - 10 * MILLI
    };
    let Some((one, next)) = neighbours(history, rng, taken_over) else { return false };
    let after = history.acquisitions[next].answered_by() + 1;
    renew(hold(history, one), after);
    true
}

fn renew_when_over(history: &mut History, rng: &mut Rng) -> bool {
    let grants = grants(history, rng);
    let Some(&last) = grants.last() else { return false };
    let known = hold(history, last).renewals.iter().all(|renewal| renewal.answer == Answer::Ok);
    let confirmed = hold(history, last).renewals.iter().filter_map(|renewal| renewal.answered_at).max();
    let confirmed = confirmed.unwrap_or(history.acquisitions[last].answered_by());
    renew(hold(history, last), confirmed + 1013 * MILLI);
    hold(history, last).release = None;
    known
}

fn renew(hold: &mut HoldRecord, at: u64) {
    let (answered_at, until, ttl) = (Some(at + 1), Some(at), 1000 * MILLI);
    hold.renewals.push(Call { op: 0, asked_at: at, answered_at, answer: Answer::Ok, ttl, until });
}

/// In a history without unknown outcomes, of which each excuses some refusal.
fn refuse_while_free(history: &mut History, rng: &mut Rng) -> bool {
    if history.acquisitions.iter().any(|one| one.outcome == AcquireOutcome::Unknown) {
        return false;
    }
    let free = |one: &Acquisition, next: &Acquisition| {
        let freed = one.hold.released_at().unwrap_or(u64::MAX - 5);
        next.asked_at > freed + 2
    };
    let Some((one, next)) = neighbours(history, rng, free) else { return false };
    let mut refused = history.acquisitions[next].clone();
    let freed = history.acquisitions[one].hold.released_at();
    (refused.op, refused.asked_at) = (0, freed.unwrap_or_default() + 1);
    (refused.answered_at, refused.outcome) = (Some(refused.asked_at + 1), AcquireOutcome::Contended);
    // No other waiter can have held it then: all the grants in question come later.
    let waiting =
        grants(history, rng).iter().any(|index| history.acquisitions[*index].asked_at < refused.asked_at);
    history.acquisitions.push(refused);
    waiting || freed.is_some()
}

fn refuse_late(history: &mut History, rng: &mut Rng) -> bool {
    late(history, rng, |one| one.outcome == AcquireOutcome::Contended)
}

fn grant_late(history: &mut History, rng: &mut Rng) -> bool {
    late(history, rng, Acquisition::is_granted)
}

fn late(history: &mut History, rng: &mut Rng, wanted: impl Fn(&Acquisition) -> bool) -> bool {
    let waits = |one: &&mut Acquisition| wanted(one) && one.wait.is_some_and(|wait| wait > 0);
    let waiting: Vec<&mut Acquisition> = history.acquisitions.iter_mut().filter(waits).collect();
    let Some(one) = rng.choice(waiting) else { return false };
    one.answered_at = one.wait.map(|wait| one.asked_at + wait + 50 * MILLI + 1);
    true
}

fn believe_too_long(history: &mut History, rng: &mut Rng) -> bool {
    let Some((one, next)) = neighbours(history, rng, one_after_the_other) else { return false };
    // A process believes nothing after its kill, and a holder nothing after its release.
    let process = history.acquisitions[one].process;
    let after = history.acquisitions[next].answered_by() + 1;
    if history.kills().contains_key(&process) {
        return false;
    }
    let next = hold(history, next);
    if next.release.as_ref().is_some_and(|release| release.asked_at <= after) {
        return false;
    }
    next.seen_until = next.seen_until.max(after + 1);
    next.seen_ended = None;
    let next_killed = history.kills();
    let hold = hold(history, one);
    (hold.release, hold.seen_ended, hold.seen_until) = (None, None, after);
    next_killed.is_empty()
}

/// Long after all who gave up have gone.
fn wake_late(history: &mut History, rng: &mut Rng) -> bool {
    if history.acquisitions.iter().any(|one| one.outcome == AcquireOutcome::Unknown) {
        return false;
    }
    let grants = grants(history, rng);
    let [.., one, last] = grants[..] else { return false };
    let Some(freed) = history.acquisitions[one].hold.released_at() else {
        return false;
    };
    let last = &mut history.acquisitions[last];
    last.answered_at = Some(freed.max(last.asked_at) + 5_000 * MILLI);
    true
}

fn swap_writes(history: &mut History, rng: &mut Rng) -> bool {
    let resource = format!("counter{}/0", rng.u64(0..2));
    let mut writes: Vec<_> = history.writes.iter_mut().map(|write| &mut write.what).collect();
    writes.retain(|write| write.resource == resource && write.wrote.is_some());
    let [.., one, next] = &mut writes[..] else { return false };
    std::mem::swap(&mut one.wrote, &mut next.wrote);
    true
}
