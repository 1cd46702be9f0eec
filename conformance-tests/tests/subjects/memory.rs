use async_trait::async_trait;
use leasehold_conformance::{Cannot, Store, Subject};
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{DistributedLock, LockAdmin, LockClient, LockName, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

static STORES: Mutex<Option<HashMap<String, MemoryBackend>>> = Mutex::new(None);

/// Locks in this process's memory.
#[derive(Debug)]
pub(crate) struct Memory;

#[derive(Debug)]
struct MemoryStore(String);

fn named(name: &str) -> MemoryBackend {
    STORES
        .lock()
        .unwrap()
        .get_or_insert_default()
        .entry(name.to_owned())
        .or_default()
        .clone()
}

#[async_trait]
impl Subject for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        Ok(Box::new(MemoryStore(format!("{:x}", fastrand::u64(..)))))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(LockClient::new(Arc::new(named(address)))))
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn address(&self) -> String {
        self.0.clone()
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        named(&self.0)
            .force_release(name, None)
            .await
            .map(drop)
            .map_err(|error| Cannot::new(error.to_string()))
    }
}
