#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use leasehold_core::{Finding, Namespace, Purge};
use std::future::pending;
use tokio::time::Instant;

/// A table that has every other lease, and never answers a look.
#[derive(Debug)]
struct Silent(Namespace);

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

    async fn look(&self, _: &LockName) -> Result<Option<Row>> {
        pending().await
    }

    async fn look_at_each(&self, _: &[&LockName]) -> Result<Vec<Row>> {
        pending().await
    }

    async fn list(&self, _: &str) -> Result<Vec<Row>> {
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
        &self.0
    }
}

#[async_trait]
impl ReaderTable for Silent {
    async fn read_shared(&self, _: &LockName, _: bool) -> Result<Option<SharedRow>> {
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
    let backend = RowLease::new(Silent(Namespace::default()));
    for number in 0..3 * MOST_BUSY {
        backend.refused(&LockName::new(format!("n{number}")).unwrap(), Busy::new());
    }
    assert!(backend.busy_names().len() <= MOST_BUSY);
}

#[tokio::test(start_paused = true)]
async fn whose_lease_was_renewed_does_not_wait_for_why_another_was_lost() {
    let backend = RowLease::new(Silent(Namespace::default()));
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
