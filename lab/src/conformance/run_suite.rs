//! A run on threads of its own, and what comes of it.

use super::heartbeat::Heartbeat;
use super::interrupt::{Interrupts, WaitResult};
use super::reporter::Reporter;
use super::suite_result::SuiteResult;
use super::{faults, junit};
use crate::args::ConformanceArgs;
use crate::cells::Pair;
use leasehold_conformance::{CaseEvent, CaseResult, Run};
use leasehold_console::signals::Signals;
use leasehold_console::{Console, Failure, unprinted};
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;

/// Runs the cases, then the cells, and publishes what came of them.
pub(super) async fn run_suite(
    run: &Arc<Run>,
    cells: &[Pair],
    args: &ConformanceArgs,
    signals: &mut Signals,
    interrupts: &mut Interrupts,
    console: Console,
) -> Result<SuiteResult, Failure> {
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
) -> Result<SuiteResult, Failure> {
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
            WaitResult::Done(Some(result)) => results.push(result),
            WaitResult::Stop => run.interrupt().cancel(),
            WaitResult::Done(None) | WaitResult::Abort => break,
        }
    }
    // Its end of the channel goes with it, however it ends.
    if !interrupts.is_aborted() && threads.join().is_err() {
        return Err(Failure::internal("the run of the suite ended", io::Error::other("it panicked")));
    }
    Ok(SuiteResult { results, signal: interrupts.signal() })
}
