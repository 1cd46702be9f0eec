#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use futures_util::FutureExt as _;
use leasehold_core::{Finding, LockMode, Namespace, Purge};
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::Instant;

/// A table that has every other lease, and never answers a look.
#[derive(Debug, Default)]
struct Silent {
    namespace: Namespace,
    /// The reads of rows with readers.
    reads: Arc<AtomicUsize>,
}

#[async_trait]
impl LeaseTable for Silent {
    async fn grant(&self, _: &Claim) -> Result<Granting> {
        pending().await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<bool>> {
        (0..claims.len()).map(|at| Ok(at % 2 == 0)).collect()
    }

    async fn release(&self, _: &Claim, _: Duration) -> Result<bool> {
        pending().await
    }

    async fn end_grant(&self, _: &LockName, _: FencingToken) -> Result<bool> {
        pending().await
    }

    async fn look(&self, _: &LockName) -> Result<Option<LeaseRow>> {
        pending().await
    }

    async fn look_at_each(&self, _: &[&LockName]) -> Result<Vec<LeaseRow>> {
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

    async fn is_there(&self) -> Result<bool> {
        unreachable!()
    }

    async fn forget(&self, _: &[LockName]) -> Result<()> {
        unreachable!()
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn close(&self) {}

    fn semantics(&self) -> Semantics {
        unimplemented!()
    }

    fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

#[async_trait]
impl ReaderTable for Silent {
    async fn read_shared(&self, _: &LockName, _: ReadFor) -> Result<Option<SharedRow>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        pending().await
    }

    async fn make_row(&self, _: &LockName) -> Result<()> {
        pending().await
    }

    async fn replace(&self, _: &LockName, _: &SharedRow, _: &NextRow, _: bool) -> Result<bool> {
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
    assert!(backend.busy_names().len() <= MOST_BUSY);
}

#[tokio::test(start_paused = true)]
async fn renewed_lease_does_not_wait_for_the_cause_of_another_loss() {
    let backend = RowLease::new(Silent::default());
    for ttl in [Duration::from_millis(300), Duration::from_secs(9), Duration::from_secs(3600)] {
        let claims: Vec<Claim> = (0..128).map(|number| claim(&format!("n{number}"), ttl)).collect();
        let start = Instant::now();
        let within = Duration::from_millis(300).min(ttl / 6);
        let answers = timeout(within, backend.renew(&claims)).await.unwrap();
        assert!(start.elapsed() <= within);
        assert_eq!(*answers[0].as_ref().unwrap(), Renewal::Renewed);
        assert_eq!(*answers[1].as_ref().unwrap(), Renewal::Lost(LossCause::Gone));
    }
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
