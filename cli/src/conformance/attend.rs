//! A run on threads of its own, and the signals that end it.

use super::reporter::Reporter;
use super::{HEARTBEAT, faults, junit};
use crate::args::ConformanceArgs;
use crate::cells::Pair;
use crate::commands::unprinted;
use crate::report::{Console, Failure};
use crate::run::signals::{Signals, ends};
use leasehold_conformance::{CaseEvent, CaseResult, Run, Tally};
use rustix::process::Signal;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{MissedTickBehavior, interval};

/// What came of a run.
pub(super) struct Ended {
    pub(super) results: Vec<CaseResult>,
    /// What ended it early.
    pub(super) signal: Option<Signal>,
    /// True if that was asked for twice. Whoever does so does not want to wait.
    pub(super) is_urgent: bool,
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
    console: Console,
) -> Result<Ended, Failure> {
    let reporter = Arc::new(Reporter::new(run, cells, args, console));
    let mut ended = attend_cases(run, signals, &reporter).await?;
    if ended.signal.is_none() {
        let (played, by) = faults::play(cells, args, run.seed(), signals, &reporter).await;
        ended.results.extend(played.iter().map(CaseResult::from));
        ended.signal = by;
    }
    reporter.end(&ended).map_err(unprinted)?;
    if let Some(file) = &args.junit {
        junit::write(file, &ended)?;
    }
    Ok(ended)
}

async fn attend_cases(
    run: &Arc<Run>,
    signals: &mut Signals,
    reporter: &Arc<Reporter>,
) -> Result<Ended, Failure> {
    let (done, mut over) = unbounded_channel();
    let (running, told) = (Arc::clone(run), Arc::clone(reporter));
    let threads = std::thread::spawn(move || {
        running.execute(&|event: CaseEvent<'_>| {
            told.observe(event);
            if let CaseEvent::Finished(result) = event {
                // Nobody listens any more only if nobody wants to know.
                let _ = done.send(result.clone());
            }
        });
    });
    let mut ended = Ended { results: Vec::new(), signal: None, is_urgent: false };
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat.reset();
    while !ended.is_urgent {
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::TSTP => signals.suspend(),
                signal if ends(signal) => {
                    ended.is_urgent = ended.signal.replace(signal).is_some();
                    run.interrupt().interrupt();
                }
                _ => {}
            },
            result = over.recv() => match result {
                Some(result) => ended.results.push(result),
                None => break,
            },
            _ = heartbeat.tick() => reporter.heartbeat(),
        }
    }
    // Its end of the channel goes with it, however it ends.
    if !ended.is_urgent && threads.join().is_err() {
        return Err(Failure::internal("the run of the suite ended", io::Error::other("it panicked")));
    }
    Ok(ended)
}
