//! The soak put to the test: what is no lock, or claims too much, is accused within a few rounds of a seed that stands here;
//! what is a lock is not, by the same rounds.

use crate::controls::{clumsy, open, proud};
use leasehold_conformance::{CaseOutcome, Round, Soak, Subject};
use libtest_mimic::{Completion, Failed, Trial};
use std::sync::Arc;

const SEED: u64 = 7;
/// Its first round stops the store.
const HALVED: u64 = 4_354_685_564_936_845_361;
/// How many rounds it may take until what is no lock is accused: it is by one fault of some, met by chance.
const ACCUSED_WITHIN: u64 = 12;
/// How many rounds what is a lock has to stand.
const TRUSTED_FOR: u64 = 4;

pub(crate) fn trials(honest: &Arc<dyn Subject>) -> Vec<Trial> {
    let accused = |what: &str, subject: Arc<dyn Subject>| {
        Trial::ignorable_test(format!("soak::{what}_is_accused"), move || {
            let mut seen = Vec::new();
            for round in rounds(subject, SEED, ACCUSED_WITHIN) {
                if is_accused(&round) {
                    return Ok(Completion::Completed);
                }
                seen.push(round);
            }
            not_run(&seen).ok_or_else(|| Failed::from(format!("it was trusted: {seen:?}")))
        })
    };
    let trusted = |subject: Arc<dyn Subject>| {
        Trial::ignorable_test("soak::store_that_keeps_its_promises_is_not_accused", move || {
            let seen: Vec<Round> = rounds(subject, SEED, TRUSTED_FOR).collect();
            let failed = seen
                .iter()
                .any(|round| matches!(round.outcome, CaseOutcome::Failed { .. } | CaseOutcome::Late { .. }));
            match seen.iter().any(|round| round.outcome == CaseOutcome::Passed) && !failed {
                true => Ok(Completion::Completed),
                false => not_run(&seen).ok_or_else(|| Failed::from(format!("{seen:?}"))),
            }
        })
    };
    let spared = |subject: Arc<dyn Subject>| {
        Trial::ignorable_test("soak::fault_made_by_half_accuses_no_store", move || {
            let mut rounds = rounds(subject, HALVED, ACCUSED_WITHIN);
            let drawn = rounds.find(|round| round.schedule.contains("StorePaused at "));
            let by_half = |round: &Round| match &round.outcome {
                CaseOutcome::Skipped { why } => why.contains("StorePaused was made by half: "),
                _ => false,
            };
            match drawn.as_ref().is_some_and(by_half) {
                true => Ok(Completion::Completed),
                false => not_run(drawn.as_slice()).ok_or_else(|| Failed::from(format!("{drawn:?}"))),
            }
        })
    };
    vec![
        spared(clumsy(honest)),
        accused("lock_that_grants_every_request", open()),
        accused("store_that_claims_to_survive_everything", proud(honest)),
        trusted(Arc::clone(honest)),
    ]
}

fn rounds(subject: Arc<dyn Subject>, seed: u64, at_most: u64) -> impl Iterator<Item = Round> {
    // Where the histories are that are rejected here, as they ought to be.
    let directory = tempfile::tempdir().unwrap();
    let soak = Soak::new(vec![subject], Some(seed), directory.path());
    (0..at_most).map_while(move |number| {
        let _kept_so_long = &directory;
        soak.round(number)
    })
}

/// For its history: a round that did not come to its end accuses no store.
fn is_accused(round: &Round) -> bool {
    matches!(&round.outcome, CaseOutcome::Failed { why } if why.contains("Rejected"))
}

/// Where it was allowed to do without servers that are missing.
fn not_run(seen: &[Round]) -> Option<Completion> {
    let missing = |round: &Round| match &round.outcome {
        CaseOutcome::Skipped { why } => why.starts_with("NOT RUN").then(|| why.clone()),
        _ => None,
    };
    let reasons: Option<Vec<String>> = seen.iter().map(missing).collect();
    reasons?.pop().map(Completion::ignored_with)
}
