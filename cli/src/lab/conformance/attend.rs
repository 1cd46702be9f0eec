//! A run on threads of its own, and what comes of it.

use super::asked::{Asked, Heard};
use super::heartbeat::Heartbeat;
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
pub(super) struct Ended {
    pub(super) results: Vec<CaseResult>,
    /// What ended it early.
    pub(super) signal: Option<Signal>,
}

impl Ended {
    pub(super) fn is_success(&self) -> bool {
        self.signal.is_none() && Tally::of(&self.results).is_success()
    }
}

/// Runs the cases, then the cells, and publishes what came of them.
pub(super) async fn attend(
    run: &Arc<Run>,
    cells: &[Pair],
    args: &ConformanceArgs,
    signals: &mut Signals,
    asked: &mut Asked,
    console: Console,
) -> Result<Ended, Failure> {
    let reporter = Arc::new(Reporter::new(run, cells, args, console));
    let mut ended = attend_cases(run, signals, asked, &reporter).await?;
    if ended.signal.is_none() {
        let played = faults::play(cells, args, run.seed(), signals, asked, &reporter).await;
        ended.results.extend(played.iter().map(CaseResult::from));
        ended.signal = asked.signal();
    }
    let said = reporter.end(&ended);
    // Also where nobody reads what is said.
    if let Some(file) = &args.junit {
        junit::write(file, &ended)?;
    }
    said.map_err(unprinted)?;
    Ok(ended)
}

async fn attend_cases(
    run: &Arc<Run>,
    signals: &mut Signals,
    asked: &mut Asked,
    reporter: &Arc<Reporter>,
) -> Result<Ended, Failure> {
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
        match asked.next(signals, heartbeat.beside(over.recv())).await {
            Heard::Came(Some(result)) => results.push(result),
            Heard::End => run.interrupt().interrupt(),
            Heard::Came(None) | Heard::Again => break,
        }
    }
    // Its end of the channel goes with it, however it ends.
    if !asked.was_again() && threads.join().is_err() {
        return Err(Failure::internal("the run of the suite ended", io::Error::other("it panicked")));
    }
    Ok(Ended { results, signal: asked.signal() })
}
