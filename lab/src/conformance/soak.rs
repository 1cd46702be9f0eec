//! Round after round of random faults under random clients, on private servers.

use super::{code_of, reporter};
use crate::args::{ConformanceArgs, Lines};
use crate::background::Background;
use crate::interrupt::Interrupts;
use crate::stores::private_stores_named;
use leasehold_conformance::{CaseOutcome, Soak, Tally};
use leasehold_console::exit::{self, Code};
use leasehold_console::{Failure, unprinted};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For as long as told, one round at least.
pub(super) async fn soak(
    args: &ConformanceArgs,
    time: Duration,
    interrupts: &mut Interrupts,
) -> Result<Code, Failure> {
    let soak = Arc::new(Soak::new(private_stores_named(&args.stores)?, args.seed, std::env::temp_dir()));
    if args.format == Lines::Plain {
        let first = format_args!("soak of {} s, seed {}", time.as_secs(), soak.seed());
        reporter::line(first).map_err(unprinted)?;
    }
    let interrupt = soak.interrupt();
    let mut rounds = Background::start(1, move || interrupt.cancel(), {
        let (soak, start) = (Arc::clone(&soak), Instant::now());
        move |tell| {
            for number in 0.. {
                let Some(round) = soak.round(number) else { break };
                if tell.send(round).is_err() || start.elapsed() >= time {
                    break;
                }
            }
        }
    });
    let (mut played, mut said) = (Vec::new(), Ok(()));
    while let Some(round) = rounds.next(interrupts).await {
        said = said.and_then(|()| reporter::line(reporter::round(&round, args.format)));
        played.push((round.subject, round.outcome));
        if said.is_err() {
            soak.interrupt().cancel();
        }
    }
    // The servers of the last round end with it. After a signal, this process may end by that signal.
    drop(soak);
    rounds.end()?;
    said.map_err(unprinted)?;
    let sum: Tally = played.iter().map(|(_, outcome)| outcome).collect();
    let signal = interrupts.signal();
    reporter::rounds(sum, args.format, signal.is_some()).map_err(unprinted)?;
    Ok(signal.map_or_else(|| code_of_rounds(sum, &played), exit::ended_by))
}

/// A random round may show nothing, or have a fault that was made by half. Beside a round of the same store that passed, nothing is open.
fn code_of_rounds(mut sum: Tally, played: &[(String, CaseOutcome)]) -> Code {
    let is_open = |(store, outcome): &&(String, CaseOutcome)| {
        let is_skipped = sum.passed > 0 && matches!(outcome, CaseOutcome::Skipped { .. });
        (is_skipped || matches!(outcome, CaseOutcome::NotJudged { .. }))
            && !played.contains(&(store.clone(), CaseOutcome::Passed))
    };
    sum.not_judged = played.iter().filter(is_open).count();
    code_of(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soak_is_not_judged_if_no_round_of_a_store_shows_anything() {
        let why = String::new;
        let (void, late) = (CaseOutcome::NotJudged { why: why() }, CaseOutcome::Late { why: why() });
        let (by_half, failed) = (CaseOutcome::Skipped { why: why() }, CaseOutcome::Failed { why: why() });
        let passed = CaseOutcome::Passed;
        let code = |rounds: &[(&str, &CaseOutcome)]| {
            let played = rounds.iter().map(|(store, outcome)| ((*store).to_owned(), (*outcome).clone()));
            let sum = rounds.iter().map(|(_, outcome)| *outcome).collect();
            code_of_rounds(sum, &played.collect::<Vec<_>>())
        };
        assert_eq!(code(&[("redis", &void), ("redis", &by_half)]), Code::NOT_JUDGED);
        assert_eq!(code(&[("redis", &passed), ("redis", &void)]), Code::SUCCESS);
        assert_eq!(code(&[("redis", &passed), ("mysql", &void)]), Code::NOT_JUDGED);
        assert_eq!(code(&[("redis", &passed), ("mysql", &by_half)]), Code::NOT_JUDGED);
        assert_eq!(code(&[("redis", &passed), ("redis", &void), ("redis", &late)]), Code::LATE);
        assert_eq!(code(&[("redis", &late), ("redis", &failed)]), Code::FAILED);
        assert_eq!(code(&[("redis", &by_half)]), Code::FAILED);
    }
}
