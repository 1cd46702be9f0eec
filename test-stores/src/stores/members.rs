//! The members of a store of several servers, one by one.

use super::cannot::no_hook;
use super::server_group::ServerGroup;
use super::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold::semantics::Fault;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Case, Members, Stop};
use tokio::task::block_in_place;

/// The cases of exclusion and order across servers, and of servers that fail. The rest is asked of one, which is the same code.
const COVERED_BY_SEVERAL: [&str; 8] = ["A01", "A05", "H01", "J17", "J19", "J20", "J38", "S01"];

/// Whether a case is put to so many servers that elect a leader.
pub(super) fn covers(servers: usize, case: &Case) -> Result<(), Stop> {
    let covered = servers == 1 || COVERED_BY_SEVERAL.contains(&case.id);
    covered.then_some(()).ok_or_else(|| Stop::skipped("shown on one server, which is the same code"))
}

/// Whether a fault can happen to them.
pub(super) fn can_meet(servers: usize, fault: Fault) -> Result<(), Stop> {
    let needs_several = matches!(fault, Fault::FailOver | Fault::SplitBrain | Fault::MinorityDown);
    let lacks = "it is one server: no other one could take over, and none can be spared";
    if servers == 1 && needs_several { Err(Stop::skipped(lacks)) } else { Ok(()) }
}

/// A group whose servers vote, or are asked for a majority.
#[async_trait]
pub(super) trait MemberGroup: ServerGroup {
    /// True if each member keeps for itself what clients tell it, and knows nothing of the others.
    const INDEPENDENT: bool;

    /// Waits until so many members serve, and answers which one leads; any, if they are independent.
    fn leader_of(&mut self, serving: usize) -> Result<usize, Stop>;

    /// True if a member has this lock as taken.
    fn holds(&self, _member: usize, _name: &LockName) -> Result<bool, Stop> {
        Err(no_hook("holds"))
    }

    fn end_lease(&self, _member: usize, _name: &LockName) -> Result<(), Stop> {
        Err(no_hook("end_lease"))
    }

    /// New servers in place of the store's, and a proxy through which the others find each. None where that cannot be made.
    async fn relaunch_behind_proxies(_store: &ServerStore<Self>) -> Result<Vec<Proxy>, Stop> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl<G: MemberGroup> Members for ServerStore<G> {
    fn count(&self) -> usize {
        self.group().addresses().len()
    }

    async fn leader_of(&self, serving: usize) -> Result<usize, Stop> {
        block_in_place(|| self.group().leader_of(serving))
    }

    fn has_leader(&self) -> bool {
        !G::INDEPENDENT
    }

    async fn kill(&self, member: usize) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.servers()[member].kill());
        Ok(())
    }

    async fn restart(&self, member: usize, keep_data: bool) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.servers()[member].restart(keep_data))
    }

    async fn pause(&self, member: usize) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.servers()[member].pause());
        Ok(())
    }

    async fn resume(&self, member: usize) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.servers()[member].resume());
        Ok(())
    }

    async fn proxied(&self) -> Result<(Vec<Proxy>, String), Stop> {
        let (mut proxies, addresses) = (Vec::new(), self.group().addresses());
        for address in addresses {
            proxies.push(Proxy::to(address).await.map_err(Stop::failed)?);
        }
        let addresses: Vec<_> = proxies.iter().map(Proxy::address).collect();
        let url = self.group().url_at(&addresses);
        Ok((proxies, url))
    }

    async fn proxied_from_each_other(&self) -> Result<Vec<Proxy>, Stop> {
        G::relaunch_behind_proxies(self).await
    }

    async fn holds(&self, member: usize, name: &LockName) -> Result<bool, Stop> {
        self.group().holds(member, name)
    }

    async fn end_lease(&self, member: usize, name: &LockName) -> Result<(), Stop> {
        self.group().end_lease(member, name)
    }
}
