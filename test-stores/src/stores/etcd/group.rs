use crate::servers::{EtcdCluster, EtcdServer};
use crate::stores::cannot::{no_hook, not_held};
use crate::stores::connect::{join, loopback};
use crate::stores::members::MemberGroup;
use crate::stores::server_group::{DataServer, Environment, ServerGroup};
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold::semantics::Fault;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::server::free_port;
use leasehold_conformance::{Administrator, Case, Counters, Members, Stop};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::slice::{from_mut, from_ref};
use std::time::Duration;
use tokio::task::block_in_place;

const WATCHES_SETTLE_WITHIN: Duration = Duration::from_millis(50);

/// One member or several, with the prefix of a case's locks, which no other case uses.
#[derive(Debug)]
pub(in crate::stores) struct EtcdGroup<S> {
    servers: S,
    prefix: String,
}

/// What differs between one member and a cluster.
pub(in crate::stores) trait EtcdServers: Debug + Send + Sized + 'static {
    /// The shortest lease, in seconds.
    const LEAST_LEASE: u64;

    fn covers(_case: &Case) -> Result<(), Stop> {
        Ok(())
    }

    fn can_meet(_fault: Fault) -> Result<(), Stop> {
        Ok(())
    }

    fn launch() -> Result<Self, Stop>;

    fn each(&self) -> &[EtcdServer];

    fn each_mut(&mut self) -> &mut [EtcdServer];

    fn settle(&self) -> Result<(), Stop> {
        Ok(())
    }

    /// The member, for a hook that a cluster does not offer.
    fn only_server(&self, hook: &str) -> Result<&EtcdServer, Stop> {
        Err(no_hook(hook))
    }

    fn members(_store: &ServerStore<EtcdGroup<Self>>) -> Result<&dyn Members, Stop> {
        Err(no_hook("members"))
    }
}

impl EtcdServers for EtcdServer {
    const LEAST_LEASE: u64 = 1;

    fn can_meet(fault: Fault) -> Result<(), Stop> {
        match fault {
            Fault::FailOver | Fault::SplitBrain | Fault::MinorityDown => {
                Err(Stop::skipped("it is one member: no other one could take over, and none can be spared"))
            }
            _ => Ok(()),
        }
    }

    fn launch() -> Result<Self, Stop> {
        Self::start()
    }

    fn each(&self) -> &[EtcdServer] {
        from_ref(self)
    }

    fn each_mut(&mut self) -> &mut [EtcdServer] {
        from_mut(self)
    }

    fn only_server(&self, _hook: &str) -> Result<&EtcdServer, Stop> {
        Ok(self)
    }
}

/// The cases of exclusion and order across members, and of members that fail.
const COVERED_BY_CLUSTER: [&str; 8] = ["A01", "A05", "H01", "J17", "J19", "J20", "J38", "S01"];

impl EtcdServers for EtcdCluster {
    const LEAST_LEASE: u64 = 2;

    fn covers(case: &Case) -> Result<(), Stop> {
        let covered = COVERED_BY_CLUSTER.contains(&case.id);
        covered.then_some(()).ok_or_else(|| Stop::skipped("shown on one member, which is the same code"))
    }

    fn launch() -> Result<Self, Stop> {
        Self::start()
    }

    fn each(&self) -> &[EtcdServer] {
        self.members()
    }

    fn each_mut(&mut self) -> &mut [EtcdServer] {
        self.members_mut()
    }

    fn settle(&self) -> Result<(), Stop> {
        self.wait_until_served(self.members().len()).map(drop)
    }

    fn members(store: &ServerStore<EtcdGroup<Self>>) -> Result<&dyn Members, Stop> {
        Ok(store)
    }
}

#[async_trait]
impl MemberGroup for EtcdGroup<EtcdCluster> {
    const INDEPENDENT: bool = false;

    fn leader_of(&mut self, serving: usize) -> Result<usize, Stop> {
        self.servers.wait_until_served(serving)
    }

    async fn relaunch_behind_proxies(store: &ServerStore<Self>) -> Result<Vec<Proxy>, Stop> {
        let (mut proxies, mut ports) = (Vec::new(), [(0, 0); 3]);
        for (own, proxied) in &mut ports {
            *own = free_port()?;
            let proxy = Proxy::to(loopback(*own)).await?;
            *proxied = proxy.address().port();
            proxies.push(proxy);
        }
        let servers = block_in_place(|| EtcdCluster::start_at(ports))?;
        store.replace(Self { servers, prefix: new_prefix() }, None);
        Ok(proxies)
    }
}

impl DataServer for EtcdServer {
    fn port(&self) -> u16 {
        Self::port(self)
    }
}

#[async_trait]
impl<S: EtcdServers> ServerGroup for EtcdGroup<S> {
    type Server = EtcdServer;
    type Mode = ();

    fn covers((): (), case: &Case) -> Result<(), Stop> {
        S::covers(case)
    }

    fn can_meet(fault: Fault) -> Result<(), Stop> {
        S::can_meet(fault)
    }

    /// Leases are whole seconds, and a server looks twice in a second for those that have ended.
    fn lease(ttl: Duration) -> Duration {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        Duration::from_secs(seconds.max(S::LEAST_LEASE) + 1)
    }

    fn launch((): (), _environment: &Environment) -> Result<Self, Stop> {
        Ok(Self { servers: S::launch()?, prefix: new_prefix() })
    }

    fn servers(&mut self) -> &mut [EtcdServer] {
        self.servers.each_mut()
    }

    fn settle(&mut self) -> Result<(), Stop> {
        self.servers.settle()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.each().iter().map(|member| loopback(member.port())).collect()
    }

    fn url_at(&self, addresses: &[SocketAddr]) -> String {
        format!("etcd://{}/{}", join(addresses), self.prefix)
    }

    fn aliases(&self) -> Result<Vec<String>, Stop> {
        let (port, prefix) = (self.servers.only_server("aliases")?.port(), &self.prefix);
        Ok(vec![
            format!("etcd://localhost:{port}/{prefix}"),
            format!("etcd://127.0.0.1:{port}/{prefix}/"),
            format!("etcd://127.0.0.1:{port},127.0.0.1:{port}/{prefix}?timeout=1s"),
        ])
    }

    /// A member without authentication refuses a user, and shows that in an error.
    fn url_with_secret(&self, secret: &str) -> Result<String, Stop> {
        self.servers.only_server("secret")?;
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
                group.servers.each()[0].ctl(&["del", key])?;
            }
            if queue.is_empty() { Err(not_held()) } else { Ok(()) }
        })
    }

    async fn delete_queue(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop> {
        block_in_place(|| {
            let group = store.group();
            let directory = group.directory(name);
            group.servers.only_server("delete_queue")?.ctl(&["del", "--prefix", &directory]).map(drop)
        })
    }

    async fn wipe(store: &ServerStore<Self>) -> Result<(), Stop> {
        block_in_place(|| {
            let group = store.group();
            group.servers.each()[0].ctl(&["del", "--prefix", &format!("{}/", group.prefix)]).map(drop)
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
        let server = self.servers.only_server("counters")?;
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
        S::members(store)
    }
}

impl<S: EtcdServers> EtcdGroup<S> {
    /// The prefix of a lock's keys. A slash is the only character in the names of cases that is encoded.
    fn directory(&self, name: &LockName) -> String {
        format!("{}/{}/", self.prefix, name.as_str().replace('%', "%25").replace('/', "%2F"))
    }

    /// The keys with this prefix, in the order in which they were created.
    fn keys(&self, prefix: &str) -> Result<Vec<String>, Stop> {
        let arguments = ["get", "--prefix", prefix, "--keys-only", "--sort-by=CREATE", "--order=ASCEND"];
        let keys = self.servers.each()[0].ctl(&arguments)?;
        Ok(keys.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect())
    }
}

fn new_prefix() -> String {
    format!("case-{:08x}", fastrand::u32(..))
}

/// Only the host has an administrator, and of it the disk: a program in Go asks the kernel for the time, so that no wall clock of
/// its own can be set for it.
#[async_trait]
impl<S: EtcdServers> Administrator for ServerStore<EtcdGroup<S>> {
    async fn fill_disk(&self, full: bool) -> Result<(), Stop> {
        self.set_disks_full(full)
    }
}
