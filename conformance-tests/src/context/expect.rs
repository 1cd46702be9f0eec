//! What cases do all the time, and expect of it.

use super::{Client, Context};
use crate::case::{Stop, Verdict, ensure};
use crate::proxy::{Proxy, Traffic};
use crate::subject::Cannot;
use leasehold_core::{
    AcquireOptions, DistributedLockExt, Error, ErrorKind, LockAdmin, LockGuard, LockName, Loss, Wait,
};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Shorter words for what cases do all the time.
pub(crate) trait ClientExt {
    async fn take(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard, Stop>;
    /// One attempt with a long lease: the guard, or `None` if it is held.
    async fn poke(&self, name: &LockName) -> Result<Option<LockGuard>, Stop>;
    fn looking(&self) -> Result<&dyn LockAdmin, Stop>;
}

impl ClientExt for Client {
    async fn take(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard, Stop> {
        Ok(self.acquire_with(name, options).await?)
    }

    async fn poke(&self, name: &LockName) -> Result<Option<LockGuard>, Stop> {
        let options = AcquireOptions::new().with_wait(Wait::No);
        match self.acquire_with(name, &options).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn looking(&self) -> Result<&dyn LockAdmin, Stop> {
        self.admin().ok_or_else(|| Stop::Skipped("the backend cannot look at its locks".to_owned()))
    }
}

/// Expects that a lock is held by somebody.
pub(crate) async fn ensure_held(client: &Client, name: &LockName, when: &str) -> Verdict {
    ensure!(client.poke(name).await?.is_none(), "{when}: somebody else got the lock");
    Ok(())
}

/// Expects that the store keeps a lease for as long as its holder believes in it; for how long it does.
pub(crate) async fn ensure_kept(other: &Client, guard: &LockGuard, when: &str) -> Result<Duration, Stop> {
    let (before, asked) = (guard.remaining(), Instant::now());
    let Some(status) = other.looking()?.inspect(guard.name()).await?.pop() else {
        return Err(Stop::Failed(format!("{when}: the store has no holder of {}", guard.name())));
    };
    let Some(kept) = status.ends_in else {
        return Err(Stop::Skipped("the store does not show when a lease ends".to_owned()));
    };
    // A renewal meanwhile makes the one of them larger, and the time that it took the other.
    let believed = guard.remaining().min(before.saturating_sub(asked.elapsed()));
    ensure!(
        kept >= believed,
        "{when}: the holder believes in {believed:?} more, and the store keeps {kept:?}"
    );
    Ok(kept)
}

/// Expects that a lock can be had, and gives it back.
pub(crate) async fn ensure_free(client: &Client, name: &LockName, when: &str) -> Verdict {
    let Some(guard) = client.poke(name).await? else {
        return Err(Stop::Failed(format!("{when}: the lock is not free")));
    };
    guard.release().await?;
    Ok(())
}

/// Expects that a lock can be had within a bound, and gives it back. How long it took.
pub(crate) async fn free_within(
    client: &Client,
    name: &LockName,
    bound: Duration,
    when: &str,
) -> Result<Duration, Stop> {
    let start = Instant::now();
    let options = AcquireOptions::new().with_wait(bound);
    match client.acquire_with(name, &options).await {
        Ok(guard) => {
            let took = start.elapsed();
            guard.release().await?;
            Ok(took)
        }
        Err(error) => Err(Stop::Failed(format!("{when}: not free within {bound:?}: {error}"))),
    }
}

/// Expects an error of this kind.
pub(crate) fn ensure_kind<T>(outcome: Result<T, Error>, kind: ErrorKind, when: &str) -> Verdict {
    match outcome {
        Ok(_) => Err(Stop::Failed(format!("{when}: it succeeded instead of being {kind:?}"))),
        Err(error) => {
            ensure!(error.kind() == kind, "{when}: {:?} instead of {kind:?}: {error}", error.kind());
            Ok(())
        }
    }
}

/// What a hook answered, or `None` where there is no such hook. A hook that was tried and failed fails the case.
pub(crate) fn optional<T>(answer: Result<T, Cannot>) -> Result<Option<T>, Stop> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(cannot) if !cannot.was_tried() => Ok(None),
        Err(cannot) => Err(cannot.into()),
    }
}

/// Waits until a condition holds, asking every few milliseconds; false if it does not within the bound.
pub(crate) async fn eventually(bound: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > bound {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}

/// Starts a request through a proxy, and returns when the store has answered its first part. The proxy holds the answer.
pub(crate) async fn until_answer_is_held<T: Send + 'static>(
    cx: &Context,
    proxy: &Proxy,
    request: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, Stop> {
    let before = proxy.reply_bytes();
    proxy.set(Traffic::HoldReplies);
    let request = tokio::spawn(request);
    let is_answered = eventually(cx.patience(), || proxy.reply_bytes() > before).await;
    ensure!(is_answered, "the store did not answer the request whose reply is held");
    Ok(request)
}

/// Waits for the loss of a guard; fails the case if it does not come.
pub(crate) async fn loss_within(guard: &LockGuard, bound: Duration) -> Result<Loss, Stop> {
    tokio::time::timeout(bound, guard.lost())
        .await
        .map_err(|_| Stop::Failed(format!("the holder was not told within {bound:?} that it lost the lock")))
}

/// The last moment at which the holder can have said that it holds: taken before each look, so that a thread which is
/// stopped between the two accuses nobody.
pub(crate) async fn believed_until(guard: &LockGuard) -> Instant {
    let mut believed = Instant::now();
    loop {
        let now = Instant::now();
        if !guard.is_held() {
            return believed;
        }
        believed = now;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until so many stand in the queue of a lock. For a store that knows who waits.
pub(crate) async fn until_queued(cx: &Context, client: &Client, name: &LockName, waiters: usize) -> Verdict {
    let start = Instant::now();
    loop {
        let queued = client.looking()?.waiters(name).await?.len();
        if queued >= waiters {
            return Ok(());
        }
        ensure!(start.elapsed() < cx.patience(), "of {waiters} waiters, `LockAdmin::waiters` shows {queued}");
        // A long queue is a long answer.
        tokio::time::sleep(Duration::from_millis(2) + Duration::from_micros(20) * waiters as u32).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::run_case;
    use crate::subject::{Store, Subject};
    use async_trait::async_trait;
    use leasehold_core::memory::MemoryBackend;
    use leasehold_core::{DistributedLock, LockClient};
    use std::process::Command;
    use std::sync::Arc;

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

        async fn records(&self) -> Result<usize, Cannot> {
            Err(Cannot::failed("broken hook"))
        }

        async fn delete(&self, _: &LockName) -> Result<(), Cannot> {
            Err(Cannot::failed("broken hook"))
        }
    }

    #[async_trait]
    impl Subject for Small {
        fn name(&self) -> &str {
            "small"
        }

        async fn start(&self) -> Result<Box<dyn Store>, Cannot> {
            Ok(Box::new(Broken))
        }

        async fn connect(&self, _: &str) -> Result<Arc<dyn DistributedLock>, Error> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn a_hook_that_was_tried_and_came_to_nothing_fails_the_case() {
        for id in ["A12", "F02", "G01", "G04"] {
            let client = LockClient::new(Arc::new(MemoryBackend::new()));
            let subject: Arc<dyn Subject> = Arc::new(Small(Arc::new(client)));
            let stop = run_case(&subject, crate::by_id(id).unwrap()).unwrap_err();
            assert!(matches!(&stop, Stop::Failed(why) if why == "broken hook"), "{id}: {stop:?}");
        }
    }

    #[test]
    fn a_hook_that_came_to_nothing_is_no_missing_store() {
        let case = "context::expect::tests::a_hook_that_was_tried_and_came_to_nothing_fails_the_case";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let said = again.args(["--exact", case]).env("LEASEHOLD_SKIP_MISSING", "1").output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout);
        assert!(said.contains(" 1 passed"), "{said}");
    }

    #[test]
    fn a_hook_that_is_not_there_answers_nothing() {
        assert!(matches!(optional::<usize>(Err(Cannot::new("no way"))), Ok(None)));
        assert!(matches!(optional(Ok(7)), Ok(Some(7))));
    }
}
