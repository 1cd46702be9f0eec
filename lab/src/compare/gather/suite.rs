//! The conformance suite, put to every store.

use super::candidate::Candidate;
use crate::cells::STOP_TIMEOUT;
use crate::compare::model::ReportedCase;
use crate::early_end::EarlyEnd;
use crate::format::joined_lines;
use crate::progress::Progress;
use leasehold_conformance::{CaseEvent, CaseOutcome, CaseResult, HostShare, Run, Subject};
use leasehold_console::Console;
use leasehold_console::signals::Signals;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Runs every case that makes sense, and writes down what came of it: against all private stores at once, and against the
/// user's stores one after the other.
pub(super) async fn run(
    candidates: &mut [Candidate],
    seed: u64,
    quick: bool,
    signals: &mut Signals,
    console: Console,
) -> Result<(), EarlyEnd> {
    let there = candidates.iter_mut().filter(|candidate| candidate.is_there());
    let (mut live, mut private): (Vec<&mut Candidate>, Vec<&mut Candidate>) =
        there.partition(|candidate| candidate.user_store.is_some());
    let mut outcome = Ok(());
    for candidate in &mut live {
        if outcome.is_ok() {
            let run = settled(Run::new(vec![subject(candidate)]), seed, quick);
            let run = Arc::new(run.harmless_below(&candidate.root));
            outcome = watch(&run, std::slice::from_mut(candidate), signals, console).await;
            candidate.clean_up(&run.names(), console).await;
        }
    }
    if outcome.is_ok() && !private.is_empty() {
        let subjects = private.iter().map(|candidate| subject(candidate)).collect();
        let run = Arc::new(settled(Run::new(subjects), seed, quick));
        outcome = watch(&run, &mut private, signals, console).await;
    }
    for candidate in live.into_iter().chain(private) {
        settle(candidate, quick, console);
    }
    outcome
}

fn subject(candidate: &Candidate) -> Arc<dyn Subject> {
    Arc::clone(&candidate.subject)
}

fn settled(run: Run, seed: u64, quick: bool) -> Run {
    let run = run.with_seed(seed);
    let wanted = leasehold_conformance::all().filter(|case| quick && case.share == HostShare::Usual);
    wanted.fold(run, |run, case| run.with_filter(format!("::{}", case.name())))
}

/// Runs it on threads of its own, until it is over or a signal ends it: then its cases are dropped where they are, and
/// what they have started ends.
async fn watch(
    run: &Arc<Run>,
    candidates: &mut [&mut Candidate],
    signals: &mut Signals,
    console: Console,
) -> Result<(), EarlyEnd> {
    let progress = Progress::new(console, run.plan().len());
    let (done, mut results) = unbounded_channel();
    let running = Arc::clone(run);
    std::thread::spawn(move || {
        running.execute(&|event: CaseEvent<'_>| {
            if let CaseEvent::Finished(result) = event {
                // The send fails only if the receiver was dropped: the result is not wanted then.
                let _ = done.send(result.clone());
            }
        })
    });
    let outcome = signals.unless_ended(collect(candidates, &mut results, &progress)).await;
    if outcome.is_err() {
        run.interrupt().cancel();
        let ending = tokio::time::timeout(STOP_TIMEOUT, collect(candidates, &mut results, &progress));
        // A second signal ends this wait early.
        let _ = signals.unless_ended(ending).await;
    }
    outcome.map_err(EarlyEnd::Interrupted)
}

/// Until the last thread has ended.
async fn collect(
    candidates: &mut [&mut Candidate],
    results: &mut UnboundedReceiver<CaseResult>,
    progress: &Progress,
) {
    while let Some(result) = results.recv().await {
        let of = candidates.iter_mut().find(|candidate| candidate.subject.name() == result.subject);
        let Some(candidate) = of else { continue };
        let name = &candidate.report.name;
        progress.step(format_args!("{name} {}", result.case));
        let result = result_of(&result.case, &result.property, result.outcome, result.took_ms);
        if let CaseOutcome::Failed { why } | CaseOutcome::Late { why } = &result.outcome {
            let word = if matches!(result.outcome, CaseOutcome::Late { .. }) { "late" } else { "FAILED" };
            progress.say(format_args!(
                "{name}: {} {} {word}: {}",
                result.id,
                result.property,
                joined_lines(why)
            ));
        }
        candidate.report.cases.push(result);
    }
}

/// Adds the cases that were not put to it, and says how it was.
fn settle(candidate: &mut Candidate, quick: bool, console: Console) {
    let report = &mut candidate.report;
    for case in leasehold_conformance::all().filter(|case| quick && case.share != HostShare::Usual) {
        let why = "it needs more of the machine, which --quick leaves out".to_owned();
        report.cases.push(result_of(case.id, case.property, CaseOutcome::Skipped { why }, 0));
    }
    report.cases.sort_by(|one, other| one.id.cmp(&other.id));
    console.note(format_args!("{}: {}", report.name, report.counts()));
}

fn result_of(id: &str, property: &str, outcome: CaseOutcome, took_ms: u64) -> ReportedCase {
    ReportedCase { id: id.to_owned(), property: property.to_owned(), outcome, took_ms }
}
