use super::kinds::KINDS;
use super::pool::{Pool, Pooled};
use super::redis::{Servers, delete, records, tell};
use super::{SECRET, cannot, connect, connect_observed, in_time, timeouts};
use crate::servers::{RedisSentinelGroup as Group, RedisServer};
use async_trait::async_trait;
use leasehold::client::Observer;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Administrator, Cannot, Case, Kinds, Replicas, ShimmedClock, Store, Subject};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A Redis with a replica, and three Sentinels that watch them. They are used again for another case unless this one has harmed
/// them.
#[derive(Debug, Default)]
pub(crate) struct RedisSentinel {
    pool: Arc<Pool<Group>>,
}

#[derive(Debug)]
pub(super) struct Watched {
    group: Mutex<Pooled<Group>>,
    url: String,
    /// The primary that was stopped.
    stopped: Mutex<Option<usize>>,
    clock: Mutex<Option<ShimmedClock>>,
}

impl Watched {
    fn group(&self) -> MutexGuard<'_, Pooled<Group>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group, which no other case is to have after this one.
    fn harmed(&self) -> MutexGuard<'_, Pooled<Group>> {
        let group = self.group();
        group.keep_from_others();
        group
    }

    fn on_primary<T>(
        &self,
        act: impl FnOnce(&RedisServer) -> std::result::Result<T, Cannot>,
    ) -> std::result::Result<T, Cannot> {
        let group = self.group();
        let primary = group.primary().ok_or_else(|| Cannot::failed("no Sentinel names a primary"))?;
        act(group.server(primary))
    }

    fn command(&self, words: &[&str]) -> std::result::Result<String, Cannot> {
        self.on_primary(|primary| primary.command(words).map_err(cannot))
    }
}

impl Servers for Watched {
    fn each(
        &self,
        act: &mut dyn FnMut(&mut RedisServer) -> std::result::Result<(), Cannot>,
    ) -> std::result::Result<(), Cannot> {
        self.harmed().servers_mut().iter_mut().try_for_each(act)
    }

    fn settle(&self) -> std::result::Result<(), Cannot> {
        self.group().wait_until_whole().map_err(cannot)
    }

    fn clock(&self) -> &Mutex<Option<ShimmedClock>> {
        &self.clock
    }
}

#[async_trait]
impl Subject for RedisSentinel {
    fn name(&self) -> &str {
        "redis-sentinel"
    }

    fn kinds(&self) -> &dyn Kinds {
        &KINDS
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        let start = || Group::start().map(|group| self.pool.lend(group));
        let used = self.pool.take();
        let is_used = used.is_some();
        let group = used.map_or_else(start, Ok).map_err(cannot)?;
        let url = group.url();
        let (group, stopped, clock) = (Mutex::new(group), Mutex::default(), Mutex::default());
        let watched = Watched { group, url, stopped, clock };
        if is_used {
            watched.wipe().await.inspect_err(|_| drop(watched.harmed()))?;
        }
        Ok(Box::new(watched))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }

    async fn connect_observed(
        &self,
        address: &str,
        observer: Arc<dyn Observer>,
    ) -> std::result::Result<Arc<dyn DistributedLock>, Cannot> {
        connect_observed(address, observer).await.map_err(cannot)
    }

    fn covers(&self, case: &Case) -> std::result::Result<(), Cannot> {
        match case.id {
            "D16" => Err(Cannot::new("the primary is one server, and renewals are those of one")),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Watched {
    fn address(&self) -> String {
        self.url.clone()
    }

    async fn proxied(&self, patience: Duration) -> std::result::Result<(Proxy, String), Cannot> {
        let (sentinels, servers) = {
            let group = self.group();
            (group.sentinel_ports(), [0, 1].map(|server| group.server(server).port()))
        };
        let all = sentinels.iter().chain(&servers).map(|port| ([127, 0, 0, 1], *port).into());
        let proxy = Proxy::to_all_that_name_each_other(all).await.map_err(cannot)?;
        let mut url = self.url.clone();
        for (port, through) in sentinels.iter().zip(proxy.addresses()) {
            url = url.replace(&port.to_string(), &through.port().to_string());
        }
        Ok((proxy, format!("{url}?{}", timeouts(patience))))
    }

    async fn pause(&self) -> std::result::Result<(), Cannot> {
        self.harmed().pause();
        Ok(())
    }

    async fn resume(&self) -> std::result::Result<(), Cannot> {
        self.harmed().resume();
        Ok(())
    }

    async fn kill(&self) -> std::result::Result<(), Cannot> {
        self.harmed().kill();
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> std::result::Result<(), Cannot> {
        self.harmed().restart(keep_data).map_err(cannot)
    }

    /// As they are shipped, they write nothing but a snapshot after an hour.
    async fn crash(&self) -> std::result::Result<(), Cannot> {
        self.restart(false).await
    }

    async fn sync(&self) -> std::result::Result<(), Cannot> {
        self.each(&mut |server| server.sync().map_err(cannot))
    }

    /// All servers lose it at once.
    async fn lose_power(&self) -> std::result::Result<(), Cannot> {
        self.each(&mut |server| server.lose_power().map_err(cannot))?;
        self.restart(true).await
    }

    /// Counts only on the primary: a replaced primary keeps its records until it is told.
    async fn records(&self) -> std::result::Result<usize, Cannot> {
        self.on_primary(records)
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Cannot> {
        Ok(self)
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        self.on_primary(|primary| delete(primary, name))
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        self.on_primary(|primary| tell(primary, &["FLUSHALL"]))
    }

    fn replicas(&self) -> std::result::Result<&dyn Replicas, Cannot> {
        Ok(self)
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        Ok(format!("{} {prefix}", self.url))
    }

    async fn secret(&self) -> std::result::Result<(String, String), Cannot> {
        let secret = SECRET.to_owned();
        Ok((format!("{}?sentinel_password={secret}", self.url), secret))
    }
}

#[async_trait]
impl Replicas for Watched {
    fn confirmed_address(&self) -> std::result::Result<String, Cannot> {
        Ok(format!("{}?wait_replicas=1&timeout=8s", self.url))
    }

    async fn catch_up(&self, _: &LockName) -> std::result::Result<(), Cannot> {
        drop(self.harmed());
        self.command(&["SET", "mark", "written"])?;
        let has_it = |server: usize| {
            let mark = self.group().server(server).command(&["GET", "mark"]);
            mark.is_ok_and(|mark| mark.ends_with("written"))
        };
        in_time("the replica does not catch up", async {
            while !(has_it(0) && has_it(1)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        })
        .await
    }

    async fn cut_off(&self, _: &LockName) -> std::result::Result<(), Cannot> {
        self.harmed().cut_replica_off().map_err(cannot)
    }

    async fn fail_over(&self, _: &LockName) -> std::result::Result<(), Cannot> {
        self.harmed().fail_over().map_err(cannot)
    }

    async fn supplant(&self, _: &LockName) -> std::result::Result<(), Cannot> {
        let primary = self.harmed().supplant().map_err(cannot)?;
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(primary);
        Ok(())
    }

    async fn revive(&self) -> std::result::Result<(), Cannot> {
        if let Some(primary) = self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.harmed().server(primary).resume();
        }
        Ok(())
    }
}
