//! Sound locks of unusual kinds: the suite accuses none of them. One is refused before it runs.

use crate::plain::{SOUND, Times};
use crate::shared_queue::line;
use crate::subject::{Lasting, Made, Make, redis};
use crate::trials::{passes, run};
use crate::values::{
    self, A_SECOND_MORE, END_OF_A_SECOND, SECONDS, STEPS_OF_TEN, TWO_SECONDS_AT_LEAST, in_times,
};
use crate::waiters;
use leasehold_conformance::{Stop, Subject};
use leasehold_core::{Sharing, TokenClass};
use leasehold_test_stores::stores;
use libtest_mimic::{Completion, Failed, Trial};
use std::sync::Arc;
use std::time::Duration;

/// A name, how to make it, and the cases that might accuse it.
type Sound = (&'static str, Make, &'static [&'static str]);

/// The cases that wait for the end of a lease, or look at it.
const OF_LEASES: &[&str] = &[
    "B07", "C04", "C08", "C11", "C14", "D01", "D04", "D08", "D17", "D19", "D22", "D25", "E02", "E09", "E13",
    "G08", "J37",
];

/// A name, how it keeps time, and what its subject says of that.
type Coarse = (&'static str, Make, Lasting);

const COARSE: &[Coarse] = &[
    ("seconds", |address| Ok(in_times(Times::all(SECONDS), true, address)), SECONDS),
    ("seconds_undeclared", |address| Ok(in_times(Times::all(SECONDS), true, address)), |ttl| ttl),
    ("end_of_a_second", |address| Ok(in_times(Times::all(END_OF_A_SECOND), true, address)), A_SECOND_MORE),
    (
        "two_seconds_at_least",
        |address| Ok(in_times(Times::all(TWO_SECONDS_AT_LEAST), true, address)),
        TWO_SECONDS_AT_LEAST,
    ),
    ("a_second_more", |address| Ok(in_times(Times::all(A_SECOND_MORE), true, address)), A_SECOND_MORE),
    ("steps_of_ten", |address| Ok(in_times(Times::all(STEPS_OF_TEN), true, address)), STEPS_OF_TEN),
];

const SOUNDS: &[Sound] = &[
    (
        "queue_in_one_record",
        |address| Ok(waiters::in_line("0", address)),
        &["G01", "G15", "H05", "H09", "H12", "H14", "Q08"],
    ),
    (
        "queue_that_is_handed_over",
        |address| Ok(waiters::handed_over(true, address)),
        &["G01", "G15", "H05", "H09", "H12", "H13", "H14", "Q08"],
    ),
    (
        "line_that_misses_a_dead_waiter_after_two_seconds",
        |address| {
            const SEEN: (&str, &str) =
                ("'HSET', k.seen, owner, now", "'HSET', k.seen, owner, now + math.max(ttl, 2000) - 1000");
            Ok(line(Sharing::Fifo, &[SEEN], address))
        },
        &["H04", "T14"],
    ),
    (
        "tokens_that_live_in_the_data",
        |address| Ok(values::with_tokens_of(TokenClass::Stored, address)),
        &["F02", "F14", "J10", "S01"],
    ),
    (
        "no_administrator",
        |address| Ok(values::without_administrator(SOUND, address)),
        &["C15", "D21", "F02", "G14", "H02"],
    ),
];

pub(crate) fn subjects() -> impl Iterator<Item = Arc<dyn Subject>> {
    let sounds = SOUNDS.iter().map(|(name, make, _)| subject(name, *make));
    sounds.chain(COARSE.iter().map(coarse))
}

fn subject(name: &str, make: Make) -> Arc<dyn Subject> {
    coarse(&(name, make, |ttl| ttl))
}

fn coarse((name, make, lease): &(&str, Make, Lasting)) -> Arc<dyn Subject> {
    let (name, make, lease) = (format!("sound_{name}"), *make, *lease);
    Arc::new(Made { name, start: redis, make, kinds: &stores::FacadeKinds, lease })
}

pub(crate) fn trials() -> Vec<Trial> {
    let of = |(name, subject, cases): (&&str, Arc<dyn Subject>, &[&'static str])| {
        let trial = |case: &&'static str| {
            let (subject, case) = (Arc::clone(&subject), *case);
            Trial::ignorable_test(format!("sound::{name}::passes_{case}"), move || passes(&subject, case))
        };
        cases.iter().map(trial).collect::<Vec<_>>()
    };
    let sounds = SOUNDS.iter().map(|(name, make, cases)| (name, subject(name, *make), *cases));
    let coarse = COARSE.iter().map(|of_these| (&of_these.0, coarse(of_these), OF_LEASES));
    let mut trials: Vec<Trial> = sounds.chain(coarse).flat_map(of).collect();
    trials.push(Trial::ignorable_test("fallback_of_a_day_is_refused_at_once", refuses_a_day));
    trials
}

/// The first case says why, instead of waiting for a day.
fn refuses_a_day() -> Result<Completion, Failed> {
    let patient = subject("fallback_of_a_day", |address| {
        Ok(waiters::told(Duration::from_secs(86_400), false, address))
    });
    match run(&patient, "A07") {
        Err(Stop::Failed(words)) if words.contains("may ask again only after 86400s") => {
            Ok(Completion::Completed)
        }
        verdict => Err(Failed::from(format!("{verdict:?}"))),
    }
}
