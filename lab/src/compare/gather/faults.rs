//! Every fault under every private store.

use super::candidate::Candidate;
use crate::cells::{AT_ONCE, Playing, STOP_TIMEOUT};
use crate::early_end::EarlyEnd;
use crate::format::joined_lines;
use crate::progress::Progress;
use leasehold_conformance::Subject;
use leasehold_conformance::matrix::{Matrix, State};
use leasehold_console::Console;
use leasehold_console::signals::Signals;
use std::sync::Arc;

/// Plays all cells of the private stores.
pub(super) async fn run(
    candidates: &mut [Candidate],
    seed: u64,
    signals: &mut Signals,
    console: Console,
) -> Result<(), EarlyEnd> {
    let subjects: Vec<Arc<dyn Subject>> = candidates
        .iter()
        .filter(|candidate| candidate.user_store.is_none() && candidate.is_there())
        .map(|candidate| Arc::clone(&candidate.subject))
        .collect();
    let matrix = Matrix::new(&subjects, seed);
    let cells: Vec<_> = matrix.all().collect();
    let progress = Progress::new(console, cells.len());
    let mut playing = Playing::begin(matrix, cells, AT_ONCE);
    let outcome = signals.unless_ended(collect(candidates, &mut playing, &progress)).await;
    if outcome.is_err() {
        playing.stop();
        let ending = tokio::time::timeout(STOP_TIMEOUT, collect(candidates, &mut playing, &progress));
        // A second signal ends this wait early.
        let _ = signals.unless_ended(ending).await;
    }
    for candidate in candidates {
        candidate.report.cells.sort_by_key(|cell| cell.fault as usize);
    }
    outcome.map_err(EarlyEnd::Interrupted)
}

/// Until the last thread has ended.
async fn collect(candidates: &mut [Candidate], playing: &mut Playing, progress: &Progress) {
    while let Some(cell) = playing.next().await {
        let of = candidates.iter_mut().find(|candidate| candidate.subject.name() == cell.subject);
        let Some(candidate) = of else { continue };
        let fault = crate::format::fault(cell.fault);
        progress.step(format_args!("{}: {fault}", cell.subject));
        if let State::Broken { why } | State::Void { why } = &cell.state {
            let word = if matches!(cell.state, State::Void { .. }) { "not judged" } else { "BROKEN" };
            progress.say(format_args!("{}: {fault}: {word}: {}", cell.subject, joined_lines(why)));
        }
        candidate.report.cells.push(cell);
    }
}
