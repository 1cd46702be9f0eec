//! One case on one subject.

use super::machine::Machine;
use super::result::CaseResult;
use super::terms::{Interrupt, Terms};
use crate::case::{Case, Stop, Verdict};
use crate::context::Context;
use crate::faults::scaled;
use crate::subject::Subject;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// A case that takes longer than this hangs.
const WATCHDOG: Duration = Duration::from_secs(120);

/// How long what was interrupted may take to end.
const PARTING: Duration = Duration::from_secs(5);

/// Runs one case against one subject, here and now.
///
/// # Errors
///
/// [`Stop`]: failed or skipped, and why.
pub fn run_case(subject: &Arc<dyn Subject>, case: Case) -> Verdict {
    let interrupted = || Err(Stop::Skipped("it was interrupted".to_owned()));
    watched(subject, case, &Terms::of_environment()).unwrap_or_else(interrupted)
}

/// Runs one case when its share of the machine is free, and says when it begins.
/// `None` if it was interrupted.
pub(super) fn in_turn(
    subject: &Arc<dyn Subject>,
    case: Case,
    terms: &Terms,
    begun: impl FnOnce(),
) -> Option<CaseResult> {
    static MACHINE: Machine = Machine::new();
    let _part = MACHINE.take(case.share);
    begun();
    let start = Instant::now();
    let verdict = watched(subject, case, terms)?;
    Some(CaseResult::new(subject.name(), case, verdict, start.elapsed()))
}

/// `None` if it was interrupted.
fn watched(subject: &Arc<dyn Subject>, case: Case, terms: &Terms) -> Option<Verdict> {
    if terms.interrupt.is_asked_for() {
        return None;
    }
    if let Err(cannot) = subject.covers(&case) {
        return Some(Err(cannot.into()));
    }
    let (done, outcome) = sync_channel(1);
    let (subject, terms) = (Arc::clone(subject), terms.clone());
    std::thread::spawn(move || {
        let interrupt = terms.interrupt.clone();
        let _ = done.send(in_runtime(&interrupt, in_a_store(subject, case, terms)));
    });
    let watchdog = scaled(WATCHDOG);
    match outcome.recv_timeout(watchdog) {
        Ok(verdict) => verdict,
        Err(RecvTimeoutError::Timeout) => Some(failed(format!("it hangs: no end after {watchdog:?}"))),
        Err(RecvTimeoutError::Disconnected) => Some(failed("it panicked".to_owned())),
    }
}

fn failed(words: String) -> Verdict {
    Err(Stop::Failed(words))
}

/// Lets it run in a runtime of its own: what it leaves running ends with that, and what blocks a thread blocks its own.
/// `None` if it was interrupted.
pub(crate) fn in_runtime<T>(
    interrupt: &Interrupt,
    case: impl Future<Output = Result<T, Stop>> + Send,
) -> Option<Result<T, Stop>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Some(Err(error.into())),
    };
    let verdict = runtime.block_on(async {
        tokio::select! {
            biased;
            verdict = case => Some(verdict),
            () = interrupt.asked_for() => None,
        }
    });
    // What was interrupted still has servers to end, and their folders to remove.
    let parting = if verdict.is_some() { Duration::from_secs(1) } else { PARTING };
    runtime.shutdown_timeout(parting);
    verdict
}

async fn in_a_store(subject: Arc<dyn Subject>, case: Case, terms: Terms) -> Verdict {
    let context = Context::on(subject, case.id, terms).await;
    let context = context.map_err(|cannot| missing(&cannot.to_string()))?;
    // A task of its own: a panic is the failure of this case.
    tokio::spawn(async move { case.run(&context).await }).await?
}

pub(crate) fn missing(reason: &str) -> Stop {
    match may_be_missing(reason.to_owned()) {
        Stop::Failed(why) => {
            Stop::Failed(format!("{why}; scripts/test installs it, LEASEHOLD_SKIP_MISSING=1 skips its cases"))
        }
        skipped @ Stop::Skipped(_) => skipped,
    }
}

/// What went wrong, perhaps for want of a server: a failure, unless somebody has said to do without.
pub(crate) fn may_be_missing(reason: String) -> Stop {
    match std::env::var_os("LEASEHOLD_SKIP_MISSING") {
        Some(_) => Stop::Skipped(format!("{NOT_RUN}{reason}")),
        None => Stop::Failed(reason),
    }
}

/// True if it went wrong, whether or not somebody does without.
pub(crate) fn went_wrong(stop: &Stop) -> bool {
    match stop {
        Stop::Failed(_) => true,
        Stop::Skipped(why) => why.starts_with(NOT_RUN),
    }
}

const NOT_RUN: &str = "NOT RUN: ";
