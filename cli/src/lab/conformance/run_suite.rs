//! A run on threads of its own, and what comes of it.

use super::heartbeat::Heartbeat;
use super::interrupt::{Event, Interrupts};
use super::reporter::Reporter;
use super::{faults, junit};
use crate::commands::unprinted;
use crate::lab::args::ConformanceArgs;
use crate::lab::cells::Pair;
use crate::report::{Console, Failure};
use crate::run::signals::Signals;
use leasehold_conformance::{CaseEvent, CaseResult, Run, Tally};
use rustix::process::Signal;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;

/// What came of a run.
pub(super) struct RunOutcome {
    pub(super) results: Vec<CaseResult>,
    /// What ended it early.
    pub(super) signal: Option<Signal>,
}

impl RunOutcome {
    pub(super) fn is_success(&self) -> bool {
        self.signal.is_none() && Tally::count(&self.results).is_success()
    }
}

/// Runs the cases, then the cells, and publishes what came of them.
pub(super) async fn run_suite(
    run: &Arc<Run>,
    cells: &[Pair],
    args: &ConformanceArgs,
    signals: &mut Signals,
    interrupts: &mut Interrupts,
    console: Console,
) -> Result<RunOutcome, Failure> {
    let reporter = Arc::new(Reporter::new(run, cells, args, console));
    let mut ended = run_cases(run, signals, interrupts, &reporter).await?;
    if ended.signal.is_none() {
        let played = faults::play(cells, args, run.seed(), signals, interrupts, &reporter).await;
        ended.results.extend(played.iter().map(CaseResult::from));
        ended.signal = interrupts.signal();
    }
    let said = reporter.end(&ended);
    // Also where nobody reads what is said.
    if let Some(file) = &args.junit {
        junit::write(file, &ended)?;
    }
    said.map_err(unprinted)?;
    Ok(ended)
}

async fn run_cases(
    run: &Arc<Run>,
    signals: &mut Signals,
    interrupts: &mut Interrupts,
    reporter: &Arc<Reporter>,
) -> Result<RunOutcome, Failure> {
    let (done, mut over) = unbounded_channel();
    let (running, told) = (Arc::clone(run), Arc::clone(reporter));
    let threads = std::thread::spawn(move || {
        running.execute(&|event: CaseEvent<'_>| {
            told.observe(event);
            if let CaseEvent::Finished(result) = event {
                // The send fails only if the receiver was dropped: the result is not wanted then.
                let _ = done.send(result.clone());
            }
        });
    });
    let (mut results, mut heartbeat) = (Vec::new(), Heartbeat::of(reporter));
    loop {
        match interrupts.next(signals, heartbeat.beside(over.recv())).await {
            Event::Done(Some(result)) => results.push(result),
            Event::Stop => run.interrupt().interrupt(),
            Event::Done(None) | Event::Abort => break,
        }
    }
    // Its end of the channel goes with it, however it ends.
    if !interrupts.is_aborted() && threads.join().is_err() {
        return Err(Failure::internal("the run of the suite ended", io::Error::other("it panicked")));
    }
    Ok(RunOutcome { results, signal: interrupts.signal() })
}
