use crate::servers::{EtcdCluster, EtcdServer};
use crate::stores::cannot::{no_hook, not_held};
use crate::stores::connect::{join, loopback};
use crate::stores::members::{MemberGroup, can_meet, covers};
use crate::stores::server_group::{DataServer, Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold::semantics::Fault;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::server::free_port;
use leasehold_conformance::{Administrator, Case, Counters, Members, Stop};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::block_in_place;

const WATCHES_SETTLE_WITHIN: Duration = Duration::from_millis(50);

/// So many members, with the prefix of a case's locks, which no other case uses.
#[derive(Debug)]
pub(in crate::stores) struct EtcdGroup<const MEMBERS: usize> {
    cluster: EtcdCluster,
    prefix: String,
}

#[async_trait]
impl<const MEMBERS: usize> MemberGroup for EtcdGroup<MEMBERS> {
    const INDEPENDENT: bool = false;

    fn leader_of(&mut self, serving: usize) -> Result<usize, Stop> {
        self.cluster.wait_until_served(serving)
    }

    async fn relaunch_behind_proxies(store: &ServerStore<Self>) -> Result<Vec<Proxy>, Stop> {
        let (mut proxies, mut ports) = (Vec::new(), [(0, 0); MEMBERS]);
        for (own, proxied) in &mut ports {
            *own = free_port()?;
            let proxy = Proxy::to(loopback(*own)).await?;
            *proxied = proxy.address().port();
            proxies.push(proxy);
        }
        let cluster = block_in_place(|| EtcdCluster::start_at(&ports))?;
        store.replace(Self { cluster, prefix: new_prefix() }, None);
        Ok(proxies)
    }
}

impl DataServer for EtcdServer {
    fn port(&self) -> u16 {
        Self::port(self)
    }
}

#[async_trait]
impl<const MEMBERS: usize> ServerGroup for EtcdGroup<MEMBERS> {
    type Server = EtcdServer;
    type Mode = ();

    fn covers((): (), case: &Case) -> Result<(), Stop> {
        covers(MEMBERS, case)
    }

    fn can_meet(fault: Fault) -> Result<(), Stop> {
        can_meet(MEMBERS, fault)
    }

    /// Leases are whole seconds, and a server looks twice in a second for those that have ended.
    fn lease(ttl: Duration) -> Duration {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let least = if MEMBERS == 1 { 1 } else { 2 };
        Duration::from_secs(seconds.max(least) + 1)
    }

    fn launch((): (), _environment: &Environment) -> Result<Self, Stop> {
        Ok(Self { cluster: EtcdCluster::start_of(MEMBERS)?, prefix: new_prefix() })
    }

    fn servers(&mut self) -> &mut [EtcdServer] {
        self.cluster.members_mut()
    }

    fn settle(&mut self) -> Result<(), Stop> {
        self.cluster.wait_until_served(MEMBERS).map(drop)
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.cluster.members().iter().map(|member| loopback(member.port())).collect()
    }

    fn url_at(&self, addresses: &[SocketAddr]) -> String {
        format!("etcd://{}/{}", join(addresses), self.prefix)
    }

    fn aliases(&self) -> Result<Vec<String>, Stop> {
        let (port, prefix) = (self.only_member("aliases")?.port(), &self.prefix);
        Ok(vec![
            format!("etcd://localhost:{port}/{prefix}"),
            format!("etcd://127.0.0.1:{port}/{prefix}/"),
            format!("etcd://127.0.0.1:{port},127.0.0.1:{port}/{prefix}?timeout=1s"),
        ])
    }

    /// A member without authentication refuses a user, and shows that in an error.
    fn url_with_secret(&self, secret: &str) -> Result<String, Stop> {
        self.only_member("secret")?;
        Ok(self.url_at(&self.addresses()).replace("://", &format!("://locker:{secret}@")))
    }

    async fn reset(store: &ServerStore<Self>) -> Result<(), Stop> {
        store.group().prefix = new_prefix();
        Ok(())
    }

    async fn delete(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        block_in_place(|| {
            let group = store.group();
            let queue = group.keys(&group.directory(name))?;
            let is_reader = |key: &String| key.rsplit('/').next().is_some_and(|last| last.starts_with('r'));
            let readers = queue.iter().take_while(|key| is_reader(key)).count();
            for key in queue.iter().take(readers.max(1)) {
                group.cluster.members()[0].ctl(&["del", key])?;
            }
            if queue.is_empty() { Err(not_held()) } else { Ok(()) }
        })
    }

    async fn delete_queue(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        block_in_place(|| {
            let group = store.group();
            let directory = group.directory(name);
            group.only_member("delete_queue")?.ctl(&["del", "--prefix", &directory]).map(drop)
        })
    }

    async fn wipe(store: &ServerStore<Self>) -> Result<(), Stop> {
        block_in_place(|| {
            let group = store.group();
            group.cluster.members()[0].ctl(&["del", "--prefix", &format!("{}/", group.prefix)]).map(drop)
        })
    }

    /// The worst way is to lose the disks, and with them the count of revisions.
    async fn lose_data(store: &ServerStore<Self>) -> Result<(), Stop> {
        leasehold_conformance::Store::restart(store, false).await
    }

    async fn records(store: &ServerStore<Self>) -> Result<usize, Stop> {
        block_in_place(|| {
            let group = store.group();
            Ok(group.keys(&format!("{}/", group.prefix))?.len())
        })
    }

    /// A watch that is cancelled when its lock is released counts until the server has read that.
    fn counters(&self) -> Result<Counters, Stop> {
        let server = self.only_member("counters")?;
        block_in_place(|| {
            let mut before = server.traffic()?;
            loop {
                std::thread::sleep(WATCHES_SETTLE_WITHIN);
                let now = server.traffic()?;
                if now.waiting == before.waiting {
                    return Ok(now);
                }
                before = now;
            }
        })
    }

    async fn wall_clocks(_store: &ServerStore<Self>) -> Result<Vec<i64>, Stop> {
        Err(no_hook("wall_clocks"))
    }

    fn members(store: &ServerStore<Self>) -> Result<&dyn Members, Stop> {
        if MEMBERS == 1 { Err(no_hook("members")) } else { Ok(store) }
    }
}

impl<const MEMBERS: usize> EtcdGroup<MEMBERS> {
    /// The member, for a hook that a cluster does not offer.
    fn only_member(&self, hook: &str) -> Result<&EtcdServer, Stop> {
        if MEMBERS == 1 { Ok(&self.cluster.members()[0]) } else { Err(no_hook(hook)) }
    }

    /// The prefix of a lock's keys. A slash is the only character in the names of cases that is encoded.
    fn directory(&self, name: &LockName) -> String {
        format!("{}/{}/", self.prefix, name.as_str().replace('%', "%25").replace('/', "%2F"))
    }

    /// The keys with this prefix, in the order in which they were created.
    fn keys(&self, prefix: &str) -> Result<Vec<String>, Stop> {
        let arguments = ["get", "--prefix", prefix, "--keys-only", "--sort-by=CREATE", "--order=ASCEND"];
        let keys = self.cluster.members()[0].ctl(&arguments)?;
        Ok(keys.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect())
    }
}

fn new_prefix() -> String {
    format!("case-{:08x}", fastrand::u32(..))
}

/// Only the host has an administrator, and of it the disk: a program in Go asks the kernel for the time, so that no wall clock of
/// its own can be set for it.
#[async_trait]
impl<const MEMBERS: usize> Administrator for ServerStore<EtcdGroup<MEMBERS>> {
    async fn fill_disk(&self, full: bool) -> Result<(), Stop> {
        self.set_disks_full(full)
    }
}
