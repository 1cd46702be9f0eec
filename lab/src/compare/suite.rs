//! The conformance suite and the faults, put to every store: they mostly wait, so many run at once.

use super::candidate::Candidate;
use crate::background::{Background, CELLS_AT_ONCE};
use crate::format::{fault, joined_lines};
use crate::interrupt::{EarlyEnd, Interrupts};
use crate::progress::Progress;
use leasehold_conformance::matrix::{Cell, Matrix, State};
use leasehold_conformance::{CaseOutcome, CaseResult, HostShare, Run, Subject};
use leasehold_console::Console;
use std::sync::Arc;

/// Runs every case that makes sense, and keeps the results: on all private stores at once, on those of the user one by one.
pub(super) async fn run_cases(
    candidates: &mut [Candidate],
    seed: u64,
    quick: bool,
    interrupts: &mut Interrupts,
    console: Console,
) -> Result<(), EarlyEnd> {
    let there = candidates.iter_mut().filter(|candidate| candidate.is_there());
    let (mut users, mut private): (Vec<&mut Candidate>, Vec<&mut Candidate>) =
        there.partition(|candidate| candidate.user_store.is_some());
    let mut watched = Ok(());
    for candidate in &mut users {
        if interrupts.signal().is_none()
            && let Some(user_store) = &candidate.user_store
        {
            let run = settled(Run::new(vec![Arc::clone(&candidate.subject)]), seed, quick);
            let run = Arc::new(run.with_threads(user_store.cases_at_once()).harmless_below(&candidate.root));
            watched = watched.and(watch(&run, std::slice::from_mut(candidate), interrupts, console).await);
            candidate.clean_up(&run.names(), interrupts, console).await;
        }
    }
    if interrupts.signal().is_none() && !private.is_empty() {
        let subjects = private.iter().map(|candidate| Arc::clone(&candidate.subject)).collect();
        let run = Arc::new(settled(Run::new(subjects), seed, quick));
        watched = watched.and(watch(&run, &mut private, interrupts, console).await);
    }
    for candidate in users.into_iter().chain(private) {
        let report = &mut candidate.report;
        report.cases.sort_by(|one, other| one.case.cmp(&other.case));
        console.note(format_args!("{}: {}", report.name, report.counts()));
    }
    watched.and_then(|()| interrupts.check())
}

/// With --quick, without cases that need more than their share of the machine.
fn settled(run: Run, seed: u64, quick: bool) -> Run {
    let wanted = leasehold_conformance::all().filter(|case| quick && case.share == HostShare::Usual);
    wanted.fold(run.with_seed(seed), |run, case| run.with_filter(format!("::{}", case.name())))
}

async fn watch(
    run: &Arc<Run>,
    candidates: &mut [&mut Candidate],
    interrupts: &mut Interrupts,
    console: Console,
) -> Result<(), EarlyEnd> {
    let progress = Progress::new(console, run.plan().len());
    let mut cases = Background::cases(run, |_| {});
    while let Some(result) = cases.next(interrupts).await {
        let of = candidates.iter_mut().find(|candidate| candidate.subject.name() == result.subject);
        let Some(candidate) = of else { continue };
        progress.step(format_args!("{} {}", candidate.report.name, result.case));
        tell(&progress, &candidate.report.name, &result);
        candidate.report.cases.push(result);
    }
    Ok(cases.end()?)
}

fn tell(progress: &Progress, store: &str, result: &CaseResult) {
    let (word, why) = match &result.outcome {
        CaseOutcome::Failed { why } => ("FAILED", why),
        CaseOutcome::Late { why } => ("late", why),
        _ => return,
    };
    let CaseResult { case, property, .. } = result;
    progress.say(format_args!("{store}: {case} {property} {word}: {}", joined_lines(why)));
}

/// Plays every fault under every private store.
pub(super) async fn play_faults(
    candidates: &mut [Candidate],
    seed: u64,
    interrupts: &mut Interrupts,
    console: Console,
) -> Result<(), EarlyEnd> {
    let subjects: Vec<Arc<dyn Subject>> = candidates
        .iter()
        .filter(|candidate| candidate.user_store.is_none() && candidate.is_there())
        .map(|candidate| Arc::clone(&candidate.subject))
        .collect();
    let matrix = Matrix::new(&subjects, seed);
    let pairs: Vec<_> = matrix.all().collect();
    let progress = Progress::new(console, pairs.len());
    let mut cells: Background<Cell> = Background::cells(matrix, pairs, CELLS_AT_ONCE);
    while let Some(cell) = cells.next(interrupts).await {
        let of = candidates.iter_mut().find(|candidate| candidate.subject.name() == cell.subject);
        let Some(candidate) = of else { continue };
        let name = format!("{}: {}", cell.subject, fault(cell.fault));
        progress.step(&name);
        match &cell.state {
            State::Broken { why } => progress.say(format_args!("{name}: BROKEN: {}", joined_lines(why))),
            State::Late { why } => progress.say(format_args!("{name}: late: {}", joined_lines(why))),
            State::Void { why } => progress.say(format_args!("{name}: not judged: {}", joined_lines(why))),
            _ => {}
        }
        candidate.report.cells.push(cell);
    }
    for candidate in candidates {
        candidate.report.cells.sort_by_key(|cell| cell.fault as usize);
    }
    cells.end()?;
    interrupts.check()
}
