//! Mistakes in a set of locks. Each lock of the set is sound.

use async_trait::async_trait;
use futures_util::future::{join_all, select_all};
use leasehold_conformance::{Kinds, LockSet};
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, FencingToken, LockGuard, LockName,
    Result,
};
use std::sync::Arc;

/// #76: the locks are acquired in the order of the caller, and kept while the next one is waited for.
#[derive(Debug)]
pub(crate) struct CallersOrder;

#[async_trait]
impl Kinds for CallersOrder {
    async fn acquire_all(
        &self,
        client: &Arc<dyn DistributedLock>,
        names: &[LockName],
        options: &AcquireOptions,
    ) -> Result<Box<dyn LockSet>> {
        let mut guards = Vec::new();
        for name in names {
            guards.push(client.acquire_with(name, options).await?);
        }
        Ok(Box::new(Guards(guards)))
    }
}

/// #78: when one lock cannot be had, the others stay held.
#[derive(Debug)]
pub(crate) struct KeptAfterFailure;

#[async_trait]
impl Kinds for KeptAfterFailure {
    async fn acquire_all(
        &self,
        client: &Arc<dyn DistributedLock>,
        names: &[LockName],
        options: &AcquireOptions,
    ) -> Result<Box<dyn LockSet>> {
        let mut guards = Vec::new();
        for outcome in join_all(names.iter().map(|name| client.acquire_with(name, options))).await {
            match outcome {
                Ok(guard) => guards.push(guard),
                Err(error) => {
                    std::mem::forget(guards);
                    return Err(error);
                }
            }
        }
        Ok(Box::new(Guards(guards)))
    }
}

/// #79: the set is asked by its first lock.
#[derive(Debug)]
pub(crate) struct FirstLockOnly;

#[async_trait]
impl Kinds for FirstLockOnly {
    async fn acquire_all(
        &self,
        client: &Arc<dyn DistributedLock>,
        names: &[LockName],
        options: &AcquireOptions,
    ) -> Result<Box<dyn LockSet>> {
        let mut names = names.to_vec();
        names.sort();
        let mut guards = Vec::new();
        for name in &names {
            guards.push(client.acquire_with(name, options).await?);
        }
        Ok(Box::new(AsTheFirst(Guards(guards))))
    }
}

/// A guard for each name, and nothing in common.
#[derive(Debug)]
struct Guards(Vec<LockGuard>);

#[async_trait]
impl LockSet for Guards {
    fn token(&self, name: &LockName) -> Result<FencingToken> {
        let missing = || Error::new(ErrorKind::Invalid, "not in the set");
        self.0.iter().find(|guard| guard.name() == name).ok_or_else(missing)?.token()
    }

    fn is_held(&self) -> bool {
        self.0.iter().all(|guard| guard.is_held())
    }

    async fn lost(&self) -> Option<LockName> {
        let losses = self.0.iter().map(|guard| Box::pin(guard.lost()));
        let (_, at, _) = select_all(losses).await;
        Some(self.0[at].name().clone())
    }

    async fn release(mut self: Box<Self>) -> Result<()> {
        while let Some(guard) = self.0.pop() {
            guard.release().await?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct AsTheFirst(Guards);

#[async_trait]
impl LockSet for AsTheFirst {
    fn token(&self, name: &LockName) -> Result<FencingToken> {
        self.0.token(name)
    }

    fn is_held(&self) -> bool {
        self.0.0[0].is_held()
    }

    async fn lost(&self) -> Option<LockName> {
        self.0.0[0].lost().await;
        Some(self.0.0[0].name().clone())
    }

    async fn release(self: Box<Self>) -> Result<()> {
        Box::new(self.0).release().await
    }
}
