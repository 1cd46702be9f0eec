//! Sound locks of unusual kinds: the suite accuses none of them. One is refused before it runs.

use crate::plain::{SOUND, lock};
use crate::subject::{Made, Make, redis};
use crate::trials::{passes, run};
use crate::values::{self, WHOLE_SECONDS_AT_LEAST};
use crate::waiters;
use leasehold_conformance::{Stop, Subject};
use leasehold_core::TokenClass;
use leasehold_test_stores::stores;
use libtest_mimic::{Completion, Failed, Trial};
use std::sync::Arc;
use std::time::Duration;

/// A name, how to make it, and the cases that might accuse it.
type Sound = (&'static str, Make, &'static [&'static str]);

const SOUNDS: &[Sound] = &[
    (
        "leases_rounded_up_to_seconds",
        |address| Ok(lock(WHOLE_SECONDS_AT_LEAST, address)),
        &["B07", "C02", "C08", "C11", "C14", "D01", "D05", "D08", "D13", "D14", "D19", "D20", "D23", "G14"],
    ),
    (
        "queue_in_one_record",
        |address| Ok(waiters::in_line("0", address)),
        &["G01", "G15", "H03", "H05", "H09", "H12", "H14", "Q08"],
    ),
    (
        "queue_that_is_handed_over",
        |address| Ok(waiters::handed_over(true, address)),
        &["G01", "G15", "H03", "H05", "H09", "H12", "H13", "H14", "Q08"],
    ),
    (
        "tokens_that_live_in_the_data",
        |address| Ok(values::with_tokens_of(TokenClass::Stored, address)),
        &["F01", "F02", "F14", "J10"],
    ),
    (
        "no_administrator",
        |address| Ok(values::without_administrator(SOUND, address)),
        &["C15", "D21", "F02", "G14", "H02"],
    ),
];

pub(crate) fn subjects() -> impl Iterator<Item = Arc<dyn Subject>> {
    SOUNDS.iter().map(|(name, make, _)| subject(name, *make))
}

fn subject(name: &str, make: Make) -> Arc<dyn Subject> {
    Arc::new(Made { name: format!("sound_{name}"), start: redis, make, kinds: &stores::FacadeKinds })
}

pub(crate) fn trials() -> Vec<Trial> {
    let of = |(name, make, cases): &Sound| {
        let subject = subject(name, *make);
        let trial = |case: &&'static str| {
            let (subject, case) = (Arc::clone(&subject), *case);
            Trial::ignorable_test(format!("sound::{name}::passes_{case}"), move || passes(&subject, case))
        };
        cases.iter().map(trial).collect::<Vec<_>>()
    };
    let mut trials: Vec<Trial> = SOUNDS.iter().flat_map(of).collect();
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
