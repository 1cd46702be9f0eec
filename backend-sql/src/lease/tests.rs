#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use futures_util::FutureExt as _;
use leasehold_core::{Finding, LockMode, Namespace, Purge};
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::timeout;

/// A table that never answers.
#[derive(Debug, Default)]
struct Silent {
    namespace: Namespace,
    /// The looks.
    reads: Arc<AtomicUsize>,
}

#[async_trait]
impl LeaseTable for Silent {
    async fn grant(&self, _: &Claim) -> Result<Granting> {
        pending().await
    }

    async fn renew(&self, _: &[Claim]) -> Vec<Result<Renewal>> {
        pending().await
    }

    async fn release(&self, _: &Claim, _: Duration) -> Result<bool> {
        pending().await
    }

    async fn end_grant(&self, _: &LockName, _: FencingToken) -> Result<bool> {
        pending().await
    }

    async fn look(&self, _: &LockName, _: ReadFor) -> Result<Option<LeaseRow>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        pending().await
    }

    async fn list(&self, _: &str) -> Result<Vec<LeaseRow>> {
        pending().await
    }

    async fn changed(&self, _: &Claim) {}

    async fn purge(&self, _: Duration, _: Purge) -> Result<u64> {
        pending().await
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    fn init_script(&self) -> String {
        String::new()
    }

    async fn forget(&self, _: &[LockName]) -> Result<()> {
        unreachable!()
    }

    async fn check(&self) -> Result<(Vec<Finding>, bool)> {
        unreachable!()
    }

    async fn close(&self) {}

    fn semantics(&self) -> Semantics {
        unimplemented!()
    }

    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    async fn make_row(&self, _: &LockName) -> Result<()> {
        pending().await
    }

    async fn replace(&self, _: &LockName, _: &LeaseRow, _: &NextRow, _: bool) -> Result<bool> {
        pending().await
    }

    fn foreign(&self, _: &LockName) -> Error {
        unimplemented!()
    }
}

fn claim(name: &str, ttl: Duration) -> Claim {
    Claim::new(LockName::new(name).unwrap(), OwnerId::random().unwrap(), ttl, "{}".into())
}

#[test]
fn number_of_names_remembered_as_busy_is_bounded() {
    let backend = RowLease::new(Silent::default());
    for number in 0..3 * MOST_BUSY {
        backend.refused(&LockName::new(format!("n{number}")).unwrap(), Busy::new());
    }
    assert!(lock_mutex(&backend.busy_names).len() <= MOST_BUSY);
}

/// The task of the first change may not be polled, or its answer be late.
#[tokio::test(start_paused = true)]
async fn change_of_readers_waits_for_another_of_its_process_for_a_pause_at_most() {
    let table = Silent::default();
    let reads = Arc::clone(&table.reads);
    let backend = RowLease::new(table);
    let reader = || claim("a", Duration::from_secs(9)).with_mode(LockMode::Shared);
    let (first, second) = (reader(), reader());
    let mut first = pin!(backend.try_acquire(&first));
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = pin!(backend.try_acquire(&second));
    assert!(timeout(Duration::from_millis(19), second.as_mut()).await.is_err());
    assert_eq!(reads.load(Ordering::Relaxed), 1, "two tasks change the readers of a name at once");
    assert!(timeout(Duration::from_millis(2), second).await.is_err());
    assert_eq!(reads.load(Ordering::Relaxed), 2);
}
