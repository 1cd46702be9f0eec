//! Puts cases to locks: a broken one must be caught, and a sound one pass.

use crate::control::Control;
use leasehold_conformance::{
    CaseOutcome, HostShare, Run, Stop, Subject, by_id, run_case, was_too_late_since,
};
use libtest_mimic::{Completion, Failed, Trial};
use std::sync::Arc;
use std::time::Instant;

/// The cases that any lock passes that works at all.
const PLAINEST: [&str; 3] = ["A01", "A02", "A03"];

/// How often a case is put to a lock at most, while it ends for another reason than the mistake: on a busy machine, a lease may end
/// before the mistake shows, or the store may not answer in time. A pass is final, unless the machine was too late for any verdict.
const ATTEMPTS: usize = 4;

/// The trials of a broken lock, in one line of the table.
pub(crate) fn of_control(control: &Arc<Control>, all: &[Arc<Control>]) -> Vec<Trial> {
    let name = |what: &str| format!("{}::{what}", control.name());
    let [caught, mended, plain] = [Arc::clone(control), Arc::clone(control), Arc::clone(control)];
    // A lock may stand in the table for several cases. The plainest cases run once.
    let of_this_lock: Vec<&Arc<Control>> =
        all.iter().filter(|other| other.name() == control.name()).collect();
    let catching: Vec<&'static str> = of_this_lock.iter().map(|control| control.case).collect();
    let mut trials = vec![
        Trial::ignorable_test(name(&format!("is_caught_by_{}", control.case)), move || {
            let attempt = || {
                let start = Instant::now();
                let verdict = run(&caught.broken(), caught.case);
                let is_judged = verdict.is_err() || !was_too_late_since(start);
                if is_judged { verdict } else { Err(Stop::NotJudged("this machine was too late".to_owned())) }
            };
            let is_seen = |verdict: &Result<(), Stop>| {
                verdict
                    .as_ref()
                    .err()
                    .and_then(Stop::failure)
                    .is_some_and(|words| caught.words.split(" | ").any(|part| words.contains(part)))
            };
            let failed_for_another_reason = |verdict: &Result<(), Stop>| {
                !is_seen(verdict) && !matches!(verdict, Ok(()) | Err(Stop::Skipped(_)))
            };
            let verdict = (1..ATTEMPTS)
                .fold(attempt(), |last, _| if failed_for_another_reason(&last) { attempt() } else { last });
            let seen = is_seen(&verdict);
            match verdict {
                Ok(()) => Err(Failed::from("the suite trusts a broken lock")),
                Err(Stop::Skipped(reason)) => skipped(&reason),
                Err(stop) if seen => {
                    forget_history(&stop.into_reason());
                    Ok(Completion::Completed)
                }
                Err(stop) => Err(Failed::from(format!("not for {:?}: {stop:?}", caught.words))),
            }
        }),
        Trial::ignorable_test(name(&format!("mended_passes_{}", control.case)), move || {
            passes(&mended.mended(), mended.case)
        }),
    ];
    if of_this_lock.first().is_some_and(|first| Arc::ptr_eq(first, control)) {
        trials.push(Trial::ignorable_test(name("passes_the_plainest_cases"), move || {
            let mut others = PLAINEST.iter().filter(|case| !catching.contains(*case));
            others.try_fold(Completion::Completed, |so_far, case| match passes(&plain.broken(), case)? {
                Completion::Completed => Ok(so_far),
                ignored => Ok(ignored),
            })
        }));
    }
    trials
}

/// The order of the trials, by their names. A case of a sound or mended lock that needs the whole host makes all later ones wait, so it
/// comes first; broken locks do not share the host and run beside it. Sound locks of whole seconds take long, so they are not the last.
pub(crate) fn order_of(name: &str) -> u8 {
    let case = name.rsplit_once("passes_").and_then(|(_, case)| by_id(case));
    match case {
        Some(case) if case.share == HostShare::Whole => 0,
        _ if name.contains("::is_caught_by_") => 1,
        _ if name.starts_with("sound::") => 2,
        _ => 3,
    }
}

/// Removes the history that the suite has kept because it rejects it: here it was to be rejected.
fn forget_history(words: &str) {
    let place = words.split_once("the history is in ").and_then(|(_, rest)| rest.split_once(": "));
    if let Some((place, _)) = place {
        let _ = std::fs::remove_dir_all(place);
    }
}

/// The verdict of the suite, which runs a case again that fails. Where the machine was late in both, it is asked once more.
pub(crate) fn passes(subject: &Arc<dyn Subject>, case: &str) -> Result<Completion, Failed> {
    let line = by_id(case).unwrap_or_else(|| panic!("no case {case}")).name();
    let run = Run::new(vec![Arc::clone(subject)]).with_filter(format!("::{line}"));
    let is_judged = |outcome: &CaseOutcome| !matches!(outcome, CaseOutcome::NotJudged { .. });
    let mut outcome = None;
    for _ in 0..ATTEMPTS {
        outcome = run.execute(&|_| {}).pop().map(|result| result.outcome);
        if outcome.as_ref().is_none_or(is_judged) {
            break;
        }
    }
    match outcome {
        Some(CaseOutcome::Passed) => Ok(Completion::Completed),
        Some(CaseOutcome::Skipped { why }) => skipped(&why),
        outcome => Err(Failed::from(format!("{case}: {outcome:?}"))),
    }
}

/// A case that is not put to a lock shows nothing of it. It may be ignored where a program is not installed, if that was asked for,
/// and where the kernel refuses namespaces.
fn skipped(reason: &str) -> Result<Completion, Failed> {
    const OF_THIS_HOST: [&str; 2] = ["NOT RUN: ", "pid and time namespaces are not permitted here"];
    match OF_THIS_HOST.iter().any(|start| reason.starts_with(start)) {
        true => Ok(Completion::ignored_with(reason)),
        false => Err(Failed::from(format!("the case did not run: {reason}"))),
    }
}

pub(crate) fn run(subject: &Arc<dyn Subject>, case: &str) -> Result<(), Stop> {
    run_case(subject, by_id(case).unwrap_or_else(|| panic!("no case {case}")))
}
