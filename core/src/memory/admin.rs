use super::MemoryBackend;
use crate::{FencingToken, Finding, LockAdmin, LockName, LockStatus, Result, Severity};
use async_trait::async_trait;

#[async_trait]
impl LockAdmin for MemoryBackend {
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let (store, now) = self.lock();
        Ok(store.status(name, now))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let (store, now) = self.lock();
        let names = store.names().filter(|name| name.as_str().starts_with(prefix));
        Ok(names.flat_map(|name| store.status(name, now)).collect())
    }

    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let (mut store, now) = self.lock();
        let mut ended = store.status(name, now);
        ended.retain(|hold| only_if.is_none() || hold.token == only_if);
        store.force_release(name, only_if, now);
        Ok(ended)
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    /// A free name is forgotten by itself, once the clock has passed its last token.
    async fn forget(&self, _names: &[LockName]) -> Result<()> {
        Ok(())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(vec![Finding::new(
            Severity::Warning,
            "W_ONE_PROCESS",
            "these locks keep out no other process, and are forgotten with this one",
            "use a store that is shared: sqlite: does it for the processes of one host",
        )])
    }
}
