//! The soak put to the test: what is no lock, or claims too much, is accused within a few rounds of a seed that stands here;
//! what is a lock is not, by the same rounds.

use crate::controls::{open, proud};
use leasehold_conformance::{CaseOutcome, Round, Soak, Subject};
use libtest_mimic::{Failed, Trial};
use std::sync::Arc;

const SEED: u64 = 7;
/// How many rounds it may take.
const ROUNDS: u64 = 4;

pub(crate) fn trials(honest: &Arc<dyn Subject>) -> Vec<Trial> {
    let accused = |what: &str, subject: Arc<dyn Subject>| {
        Trial::test(format!("soak::{what}_is_accused"), move || {
            let seen: Vec<Round> = rounds(subject).take_while(|round| !is_accused(round)).collect();
            match seen.len() < ROUNDS as usize {
                true => Ok(()),
                false => Err(Failed::from(format!("it was trusted: {seen:?}"))),
            }
        })
    };
    let trusted = |subject: Arc<dyn Subject>| {
        Trial::test("soak::store_that_keeps_its_promises_is_not_accused", move || {
            match rounds(subject).find(is_accused) {
                None => Ok(()),
                Some(round) => Err(Failed::from(format!("{round:?}"))),
            }
        })
    };
    vec![
        accused("lock_that_lets_everybody_in", open()),
        accused("store_that_claims_to_survive_everything", proud(honest)),
        trusted(Arc::clone(honest)),
    ]
}

fn rounds(subject: Arc<dyn Subject>) -> impl Iterator<Item = Round> {
    let soak = Soak::new(vec![subject]).with_seed(SEED);
    (0..ROUNDS).map_while(move |number| soak.round(number))
}

fn is_accused(round: &Round) -> bool {
    matches!(round.outcome, CaseOutcome::Failed { .. })
}
