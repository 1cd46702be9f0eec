//! Negative controls: locks that are broken on purpose, each with one classic mistake, on a real server.
//!
//! Three lines for each, or two where it stands in the table once more. The case that is named for it catches it, in the
//! words that fit its mistake; the same lock without the mistake passes that case, so that it is the mistake that is
//! caught; and the plainest cases pass, so that it is a lock that would have been trusted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod by_hand;
mod calls;
mod controls;
mod guards;
mod locks;
mod permits;
mod plain;
mod scopes;
mod sets;
mod shared;
mod sound;
mod steps;
mod subject;
mod table;
mod values;
mod waiters;

use controls::{Control, controls};
use leasehold_conformance::{Stop, Subject, by_id, run_case, serve_as_worker};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::process::ExitCode;
use std::sync::Arc;

/// What any lock that works at all passes.
const INNOCENT: [&str; 3] = ["A01", "A02", "A03"];

fn main() -> ExitCode {
    let controls: Vec<Arc<Control>> = controls().into_iter().map(Arc::new).collect();
    let subjects = controls.iter().flat_map(|control| [control.broken(), control.mended()]);
    let subjects: Vec<_> = subjects.chain(sound::subjects()).collect();
    if let Some(done) = serve_as_worker(&subjects) {
        return done;
    }
    // Broken locks panic; that is what some of them are caught by, and not to be read by anybody.
    std::panic::set_hook(Box::new(|_| {}));
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(10);
    let mut trials: Vec<Trial> = controls.iter().flat_map(|control| trials(control, &controls)).collect();
    trials.extend(sound::trials());
    trials.push(Trial::test("documentation_has_them_all", move || Ok(table::check(&controls)?)));
    let conclusion = libtest_mimic::run(&arguments, trials);
    locks::zookeeper::end_idle();
    conclusion.exit_code()
}

fn trials(control: &Arc<Control>, all: &[Arc<Control>]) -> Vec<Trial> {
    let name = |what: &str| format!("{}::{what}", control.name());
    let [caught, mended, innocent] = [Arc::clone(control), Arc::clone(control), Arc::clone(control)];
    // A lock may stand in the table for several cases. Its looks are looked at once.
    let of_this_lock: Vec<&Arc<Control>> =
        all.iter().filter(|other| other.name() == control.name()).collect();
    let catching: Vec<&'static str> = of_this_lock.iter().map(|control| control.case).collect();
    let mut trials = vec![
        Trial::ignorable_test(name(&format!("is_caught_by_{}", control.case)), move || {
            let mut verdict = run(&caught.broken(), caught.case);
            // A busy machine may end a lease before the mistake shows.
            if matches!(&verdict, Err(Stop::Failed(words)) if !words.contains(caught.words)) {
                verdict = run(&caught.broken(), caught.case);
            }
            match verdict {
                Err(Stop::Failed(words)) if words.contains(caught.words) => {
                    forget_history(&words);
                    Ok(Completion::Completed)
                }
                Err(Stop::Failed(words)) => {
                    Err(Failed::from(format!("caught for another reason than {:?}: {words}", caught.words)))
                }
                Err(Stop::Skipped(reason)) => skipped(&reason),
                Ok(()) => Err(Failed::from("the suite trusts a broken lock")),
            }
        }),
        Trial::ignorable_test(name(&format!("mended_passes_{}", control.case)), move || {
            passes(&mended.mended(), mended.case)
        }),
    ];
    if of_this_lock.first().is_some_and(|first| Arc::ptr_eq(first, control)) {
        trials.push(Trial::ignorable_test(name("looks_innocent"), move || {
            let mut others = INNOCENT.iter().filter(|case| !catching.contains(*case));
            others.try_fold(Completion::Completed, |so_far, case| match passes(&innocent.broken(), case)? {
                Completion::Completed => Ok(so_far),
                ignored => Ok(ignored),
            })
        }));
    }
    trials
}

/// The suite keeps a history that it rejects, to be looked at. Here it is as it ought to be.
fn forget_history(words: &str) {
    let place = words.split_once("the history is in ").and_then(|(_, rest)| rest.split_once(": "));
    if let Some((place, _)) = place {
        let _ = std::fs::remove_dir_all(place);
    }
}

fn passes(subject: &Arc<dyn Subject>, case: &str) -> Result<Completion, Failed> {
    match run(subject, case) {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::Skipped(reason)) => skipped(&reason),
        Err(Stop::Failed(words)) => Err(Failed::from(format!("{case}: {words}"))),
    }
}

/// A case that is not put to a lock shows nothing of it. It may be ignored where a program is not installed, if somebody has said to
/// do without, and where the kernel refuses namespaces.
fn skipped(reason: &str) -> Result<Completion, Failed> {
    const OF_THIS_HOST: [&str; 2] = ["NOT RUN: ", "pid and time namespaces are not permitted here"];
    match OF_THIS_HOST.iter().any(|start| reason.starts_with(start)) {
        true => Ok(Completion::ignored_with(reason)),
        false => Err(Failed::from(format!("the case did not run: {reason}"))),
    }
}

fn run(subject: &Arc<dyn Subject>, case: &str) -> Result<(), Stop> {
    run_case(subject, by_id(case).unwrap_or_else(|| panic!("no case {case}")))
}
