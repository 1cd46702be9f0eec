//! One case on one subject.

use crate::case::Case;
use crate::cases;
use crate::context::Context;
use crate::lateness;
use crate::run_config::RunConfig;
use crate::stop::{Stop, Verdict};
use crate::subject::Subject;
use crate::time_scale::scaled;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A case or a cell that takes longer than this hangs. More than its servers may take to start.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(300);

/// How long what was stopped may take to end.
const PARTING: Duration = Duration::from_secs(5);

/// Runs one case against one subject, here and now, and once, however late the machine is.
///
/// # Errors
///
/// Any [`Stop`]: it did not pass, and why.
pub fn run_case(subject: &Arc<dyn Subject>, case: Case) -> Verdict {
    let interrupted = || Err(Stop::Skipped("it was interrupted".to_owned()));
    watched(WATCHDOG, subject, case, &RunConfig::from_environment()).unwrap_or_else(interrupted)
}

/// Runs one case in the runtime of the caller, with no limit of time: under `tokio::time::pause` in virtual time, if the store is
/// in memory and on the [`RuntimeClock`](leasehold_core::RuntimeClock). Cases that block a thread do not work there.
///
/// # Errors
///
/// Any [`Stop`]: it did not pass, and why.
///
/// # Cancel safety
///
/// Safe to drop; the case ends with the runtime.
pub async fn run_case_here(subject: &Arc<dyn Subject>, case: Case) -> Verdict {
    subject.covers(&case)?;
    in_a_store(Arc::clone(subject), case, RunConfig::from_environment()).await
}

/// `None` if it was interrupted.
pub(super) fn watched(
    limit: Duration,
    subject: &Arc<dyn Subject>,
    case: Case,
    config: &RunConfig,
) -> Option<Verdict> {
    lateness::watch();
    if config.interrupt.is_cancelled() {
        return None;
    }
    if let Err(stop) = subject.covers(&case) {
        return Some(Err(stop));
    }
    in_time(scaled(limit), &config.interrupt, in_a_store(Arc::clone(subject), case, config.clone()))
}

/// Runs a case in a runtime of its own, on a thread of its own. A case that hangs is dropped, and its store with it; a case
/// that blocks its thread is left behind with the thread. `None` if it was interrupted.
pub(crate) fn in_time<T: Send + 'static>(
    watchdog: Duration,
    interrupt: &CancellationToken,
    case: impl Future<Output = Result<T, Stop>> + Send + 'static,
) -> Option<Result<T, Stop>> {
    let (done, outcome) = sync_channel(1);
    let given_up = interrupt.child_token();
    let stopped = given_up.clone();
    let thread = std::thread::spawn(move || done.send(in_runtime(stopped.cancelled(), case)));
    let ended = outcome.recv_timeout(watchdog);
    if !matches!(ended, Err(RecvTimeoutError::Timeout)) {
        // Joined, not detached: glibc may read the memory of a thread that ended while it was being detached.
        let _ = thread.join();
    }
    let words = match ended {
        Ok(verdict) => return verdict,
        Err(RecvTimeoutError::Timeout) => {
            given_up.cancel();
            // Its runtime has as long for its servers, and a little for itself.
            let _ = outcome.recv_timeout(PARTING * 2);
            format!("it hangs: no end after {watchdog:?}")
        }
        Err(RecvTimeoutError::Disconnected) => "it panicked".to_owned(),
    };
    Some(Err(Stop::Failed(words)))
}

/// Lets it run in a runtime of its own: what it leaves running ends with that, and what blocks a thread blocks its own.
/// `None` if it was stopped.
pub(crate) fn in_runtime<T>(
    stopped: impl Future<Output = ()> + Send,
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
            () = stopped => None,
        }
    });
    // What was stopped still has servers to end, and their folders to remove.
    let parting = if verdict.is_some() { Duration::from_secs(1) } else { PARTING };
    runtime.shutdown_timeout(parting);
    verdict
}

async fn in_a_store(subject: Arc<dyn Subject>, case: Case, config: RunConfig) -> Verdict {
    let context = Context::start(subject, case.id, config).await?;
    // A task of its own: a panic is the failure of this case.
    tokio::spawn(async move { cases::run(case, &context).await }).await?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::by_id;
    use crate::expect::optional;
    use crate::subject::Store;
    use async_trait::async_trait;
    use leasehold_core::memory::MemoryBackend;
    use leasehold_core::{DistributedLock, Error, LockClient, LockName};
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A subject that no client can ever connect to.
    #[derive(Debug, Default)]
    struct Silent(Arc<AtomicUsize>);

    /// Counts how many of its kind have ended.
    #[derive(Debug)]
    struct Noted(Arc<AtomicUsize>);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Store for Noted {
        fn address(&self) -> String {
            String::new()
        }
    }

    #[async_trait]
    impl Subject for Silent {
        fn name(&self) -> &str {
            "silent"
        }

        async fn start(&self) -> Result<Box<dyn Store>, Stop> {
            Ok(Box::new(Noted(Arc::clone(&self.0))))
        }

        async fn connect(&self, _: &str) -> Result<Arc<dyn DistributedLock>, Error> {
            std::future::pending().await
        }
    }

    #[test]
    fn hanging_case_ends_with_its_store() {
        let ended = Arc::<AtomicUsize>::default();
        let subject: Arc<dyn Subject> = Arc::new(Silent(Arc::clone(&ended)));
        let (case, config) = (by_id("A01").unwrap(), RunConfig::from_environment());
        let verdict = watched(Duration::from_millis(50), &subject, case, &config);
        let words = "it hangs: no end after 50ms";
        assert!(matches!(&verdict, Some(Err(Stop::Failed(why))) if why == words), "{verdict:?}");
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        assert!(!config.interrupt.is_cancelled(), "others go on");
    }

    /// Locks in memory, of one client.
    #[derive(Debug)]
    struct Small(Arc<LockClient>);

    /// Its hooks are there, and come to nothing.
    #[derive(Debug)]
    struct Broken;

    #[async_trait]
    impl Store for Broken {
        fn address(&self) -> String {
            String::new()
        }

        async fn records(&self) -> Result<usize, Stop> {
            Err(Stop::failed("broken hook"))
        }

        async fn delete(&self, _: &LockName) -> Result<(), Stop> {
            Err(Stop::failed("broken hook"))
        }
    }

    #[async_trait]
    impl Subject for Small {
        fn name(&self) -> &str {
            "small"
        }

        async fn start(&self) -> Result<Box<dyn Store>, Stop> {
            Ok(Box::new(Broken))
        }

        async fn connect(&self, _: &str) -> Result<Arc<dyn DistributedLock>, Error> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn hook_that_failed_fails_the_case() {
        for id in ["A12", "F02", "G01", "G04"] {
            let client = LockClient::new(Arc::new(MemoryBackend::new()));
            let subject: Arc<dyn Subject> = Arc::new(Small(Arc::new(client)));
            let stop = run_case(&subject, by_id(id).unwrap()).unwrap_err();
            assert!(matches!(&stop, Stop::Failed(why) if why == "broken hook"), "{id}: {stop:?}");
        }
    }

    #[test]
    fn hook_that_failed_is_not_skipped_as_a_missing_store() {
        let case = "runner::one::tests::hook_that_failed_fails_the_case";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let said = again.args(["--exact", case]).env("LEASEHOLD_SKIP_MISSING", "1").output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout);
        assert!(said.contains(" 1 passed"), "{said}");
    }

    #[test]
    fn missing_hook_answers_nothing() {
        assert!(matches!(optional::<usize>(Err(Stop::skipped("no way"))), Ok(None)));
        assert!(matches!(optional(Ok(7)), Ok(Some(7))));
        let absent = Stop::Absent("nobody holds".to_owned());
        assert!(matches!(optional::<usize>(Err(absent)), Err(Stop::Absent(_))));
    }
}
