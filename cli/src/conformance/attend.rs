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
use std::time::{Duration, Instant};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{MissedTickBehavior, interval};

/// What came of a run.
pub(super) struct Ended {
    pub(super) results: Vec<CaseResult>,
    /// What ended it early.
    pub(super) signal: Option<Signal>,
}

/// Whether anybody has asked for the end, and again: whoever does so does not want to wait.
#[derive(Debug, Default)]
pub(super) struct Asked {
    first: Option<(Signal, Instant)>,
    pub(super) again: bool,
}

/// Two signals that come closer together are one wish: a terminal that is closed tells its group twice.
const APART: Duration = Duration::from_millis(300);

impl Asked {
    pub(super) fn hear(&mut self, signal: Signal) {
        self.hear_at(signal, Instant::now());
    }

    fn hear_at(&mut self, signal: Signal, now: Instant) {
        match self.first {
            Some((_, at)) => self.again |= now >= at + APART,
            None => self.first = Some((signal, now)),
        }
    }

    pub(super) fn signal(&self) -> Option<Signal> {
        self.first.map(|(signal, _)| signal)
    }

    /// Does this to its end, unless somebody asks again; `None` then, and if that has happened before.
    pub(super) async fn unless_again<T>(
        &mut self,
        signals: &mut Signals,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = std::pin::pin!(work);
        while !self.again {
            tokio::select! {
                biased;
                signal = signals.next() => match signal {
                    Signal::TSTP => signals.suspend(),
                    signal if ends(signal) => self.hear(signal),
                    _ => {}
                },
                done = &mut work => return Some(done),
            }
        }
        None
    }
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
    reporter.end(&ended).map_err(unprinted)?;
    if let Some(file) = &args.junit {
        junit::write(file, &ended)?;
    }
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
                // Nobody listens any more only if nobody wants to know.
                let _ = done.send(result.clone());
            }
        });
    });
    let (mut results, mut heartbeat) = (Vec::new(), interval(HEARTBEAT));
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat.reset();
    while !asked.again {
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::TSTP => signals.suspend(),
                signal if ends(signal) => {
                    asked.hear(signal);
                    run.interrupt().interrupt();
                }
                _ => {}
            },
            result = over.recv() => match result {
                Some(result) => results.push(result),
                None => break,
            },
            _ = heartbeat.tick() => reporter.heartbeat(),
        }
    }
    // Its end of the channel goes with it, however it ends.
    if !asked.again && threads.join().is_err() {
        return Err(Failure::internal("the run of the suite ended", io::Error::other("it panicked")));
    }
    Ok(Ended { results, signal: asked.signal() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signals_at_once_are_one_wish_and_a_later_one_is_another() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        asked.hear_at(Signal::HUP, start);
        asked.hear_at(Signal::HUP, start + APART / 2);
        assert!(!asked.again);
        asked.hear_at(Signal::INT, start + APART);
        assert!(asked.again);
        assert_eq!(asked.signal(), Some(Signal::HUP), "the first one is what ended it");
    }
}
