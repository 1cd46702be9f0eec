//! Every fault under every private store: one line for each, what is promised beside what was seen.

use super::heartbeat::Heartbeat;
use super::interrupt::{Interrupts, WaitResult};
use super::reporter::Reporter;
use crate::args::ConformanceArgs;
use crate::cells::{AT_ONCE, Pair, Playing, STOP_TIMEOUT};
use leasehold::semantics::Fault;
use leasehold_conformance::Subject;
use leasehold_conformance::matrix::{Cell, Matrix, cell_name};
use leasehold_console::signals::Signals;
use std::future::pending;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until};

/// The cells whose lines match the filters of the call.
pub(super) fn wanted(args: &ConformanceArgs, subjects: &[Arc<dyn Subject>]) -> Vec<Pair> {
    let all = subjects.iter().flat_map(|subject| Fault::ALL.map(|fault| (Arc::clone(subject), fault)));
    let is_wanted = |(subject, fault): &Pair| {
        let line = cell_name(subject.name(), *fault);
        args.filter.is_empty() || args.filter.iter().any(|filter| line.contains(filter.as_str()))
    };
    all.filter(is_wanted).collect()
}

/// Plays them, and says what came of each.
pub(super) async fn play(
    cells: &[Pair],
    args: &ConformanceArgs,
    seed: u64,
    signals: &mut Signals,
    interrupts: &mut Interrupts,
    reporter: &Reporter,
) -> Vec<Cell> {
    let subjects: Vec<Arc<dyn Subject>> = cells.iter().map(|(subject, _)| Arc::clone(subject)).collect();
    let at_once = args.threads.map_or(AT_ONCE, usize::from);
    let mut playing = Playing::begin(Matrix::new(&subjects, seed), cells.to_vec(), at_once);
    let (mut played, mut parting, mut heartbeat) = (Vec::new(), None, Heartbeat::of(reporter));
    loop {
        let next = async {
            tokio::select! {
                cell = playing.next() => cell,
                () = until(parting) => None,
            }
        };
        match interrupts.next(signals, heartbeat.beside(next)).await {
            WaitResult::Done(Some(cell)) => {
                reporter.cell(&cell);
                played.push(cell);
            }
            WaitResult::Stop => {
                parting = Some(Instant::now() + STOP_TIMEOUT);
                playing.stop();
            }
            WaitResult::Done(None) | WaitResult::Abort => break,
        }
    }
    played
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}
