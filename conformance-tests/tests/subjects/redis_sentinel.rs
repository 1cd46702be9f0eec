use super::{cannot, connect};
use async_trait::async_trait;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::servers::RedisSentinelGroup as Group;
use leasehold_conformance::{Cannot, Replicas, Store, Subject};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A Redis with a replica, and three Sentinels that watch them.
#[derive(Debug)]
pub(crate) struct RedisSentinel;

#[derive(Debug)]
struct Watched {
    group: Mutex<Group>,
    url: String,
    /// The primary that was stopped.
    stopped: Mutex<Option<usize>>,
}

impl Watched {
    fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self, words: &[&str]) -> std::result::Result<String, Cannot> {
        let group = self.group();
        let primary = group.primary().ok_or_else(|| Cannot::new("no Sentinel names a primary"))?;
        group.server(primary).command(words).map_err(cannot)
    }
}

#[async_trait]
impl Subject for RedisSentinel {
    fn name(&self) -> &str {
        "redis-sentinel"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let group = Group::start().map_err(cannot)?;
        let url = group.url();
        Ok(Box::new(Watched { group: Mutex::new(group), url, stopped: Mutex::default() }))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }
}

#[async_trait]
impl Store for Watched {
    fn address(&self) -> String {
        self.url.clone()
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        self.group().pause();
        Ok(())
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        self.group().resume();
        Ok(())
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        self.group().kill();
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        self.group().restart(keep_data).map_err(cannot)
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let key = format!("leasehold:{name}");
        let deleted = self.command(&["DEL", &key])?;
        if deleted == ":1" { Ok(()) } else { Err(Cannot::new(format!("DEL {key} answered {deleted}"))) }
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        self.command(&["FLUSHALL"]).map(drop)
    }

    fn replicas(&self) -> std::result::Result<&dyn Replicas, Cannot> {
        Ok(self)
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        Ok(format!("{} {prefix}", self.url))
    }

    async fn secret(&self) -> std::result::Result<(String, String), Cannot> {
        let secret = "S3CR3T-CANARY".to_owned();
        Ok((format!("{}?sentinel_password={secret}", self.url), secret))
    }
}

#[async_trait]
impl Replicas for Watched {
    fn confirmed_address(&self) -> String {
        format!("{}?wait_replicas=1&timeout=8s", self.url)
    }

    async fn catch_up(&self, _: &LockName) -> std::result::Result<(), Cannot> {
        let mark = ["SET", "mark", "1"];
        self.command(&mark)?;
        while !self.group().server(0).command(&["GET", "mark"]).is_ok_and(|mark| mark.ends_with('1'))
            || !self.group().server(1).command(&["GET", "mark"]).is_ok_and(|mark| mark.ends_with('1'))
        {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn cut_off(&self, _: &LockName) -> std::result::Result<(), Cannot> {
        self.group().cut_replica_off().map_err(cannot)
    }

    async fn fail_over(&self, _: &LockName) -> std::result::Result<(), Cannot> {
        self.group().fail_over().map_err(cannot)
    }

    async fn supplant(&self, _: &LockName) -> std::result::Result<(), Cannot> {
        let primary = self.group().supplant().map_err(cannot)?;
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(primary);
        Ok(())
    }

    async fn revive(&self) -> std::result::Result<(), Cannot> {
        if let Some(primary) = self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.group().server(primary).resume();
        }
        Ok(())
    }
}
