#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use leasehold_core::{Finding, Namespace, Purge};
use std::future::pending;
use std::pin::Pin;
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

    fn changed<'a>(
        &'a self,
        _: &'a Claim,
        _: &'a Contended,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(std::future::ready(()))
    }

    async fn purge(&self, _: Duration, _: Purge) -> Result<u64> {
        pending().await
    }

    fn keeps_waiting(&self, _: &Claim) -> bool {
        false
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

    async fn forget(&self, _: &LockName) -> Result<()> {
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

fn claim(name: &str, ttl: Duration) -> Claim {
    Claim::new(LockName::new(name).unwrap(), OwnerId::random().unwrap(), ttl, "{}".into())
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
