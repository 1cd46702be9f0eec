//! Runs cases against subjects: one named line each, in the ordinary form of `cargo test`.

use crate::case::{Case, Stop, Verdict};
use crate::cases::all;
use crate::context::Context;
use crate::subject::Subject;
use crate::worker;
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// A case that takes longer than this hangs.
const WATCHDOG: Duration = Duration::from_secs(120);

/// How many cases run at once if the command line does not say. They mostly wait.
const THREADS: usize = 8;

/// Runs every case against every subject and reports in the form of `cargo test`: filters, `--list`, `--exact` and
/// `--test-threads` work. To be called first in `main`, because it also serves as the worker processes of the cases.
///
/// A case that has no meaning for a subject is `ignored`, with its reason. A subject whose store is missing fails,
/// unless `LEASEHOLD_SKIP_MISSING` is set. A run without a filter in which nothing ran fails.
pub fn run(subjects: Vec<Box<dyn Subject>>) -> ExitCode {
    let subjects: Vec<Arc<dyn Subject>> = subjects.into_iter().map(Arc::from).collect();
    if let Some(done) = worker::serve_as_worker(&subjects) {
        return done;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let trials = subjects.iter().flat_map(|subject| all().map(|case| trial(subject, case))).collect();
    conclude(&arguments, &libtest_mimic::run(&arguments, trials))
}

/// Runs one case against one subject, here and now.
///
/// # Errors
///
/// [`Stop`]: failed or skipped, and why.
pub fn run_case(subject: &Arc<dyn Subject>, case: Case) -> Verdict {
    subject.covers(&case)?;
    let (done, outcome) = sync_channel(1);
    let subject = Arc::clone(subject);
    std::thread::spawn(move || {
        let _ = done.send(in_runtime(subject, case));
    });
    match outcome.recv_timeout(WATCHDOG) {
        Ok(verdict) => verdict,
        Err(RecvTimeoutError::Timeout) => Err(Stop::Failed(format!("it hangs: no end after {WATCHDOG:?}"))),
        Err(RecvTimeoutError::Disconnected) => Err(Stop::Failed("it panicked".to_owned())),
    }
}

fn trial(subject: &Arc<dyn Subject>, case: Case) -> Trial {
    let subject = Arc::clone(subject);
    let name = format!("{}::{}", subject.name(), case.name());
    Trial::ignorable_test(name, move || match in_turn(&subject, case) {
        Ok(()) => Ok(Completion::Completed),
        Err(Stop::Skipped(reason)) => Ok(Completion::ignored_with(reason)),
        Err(Stop::Failed(words)) => Err(Failed::from(words)),
    })
}

/// Many at once, but those that need the machine for themselves.
fn in_turn(subject: &Arc<dyn Subject>, case: Case) -> Verdict {
    static MACHINE: RwLock<()> = RwLock::new(());
    if case.alone {
        let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        return run_case(subject, case);
    }
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    run_case(subject, case)
}

fn in_runtime(subject: Arc<dyn Subject>, case: Case) -> Verdict {
    // One runtime a case: what a case leaves running ends with it, and a case that blocks a thread blocks its own.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let verdict = runtime.block_on(async {
        let context =
            Context::start(subject, case.id).await.map_err(|cannot| missing(&cannot.to_string()))?;
        // A task of its own: a panic is the failure of this case.
        tokio::spawn(async move { case.run(&context).await }).await?
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    verdict
}

pub(crate) fn missing(reason: &str) -> Stop {
    if std::env::var_os("LEASEHOLD_SKIP_MISSING").is_some() {
        return Stop::Skipped(format!("NOT RUN: {reason}"));
    }
    Stop::Failed(format!("{reason}; scripts/test installs it, LEASEHOLD_SKIP_MISSING=1 skips its cases"))
}

fn conclude(arguments: &Arguments, conclusion: &Conclusion) -> ExitCode {
    let ran = conclusion.num_passed + conclusion.num_failed;
    if ran == 0 && arguments.filter.is_none() && !arguments.list {
        let _ = writeln!(std::io::stderr(), "nothing ran: that is a failure");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
