use super::launch::EtcdLaunch;
use super::member::{EtcdServer, EtcdStatus};
use crate::servers::wait::wait_until;
use leasehold_conformance::Stop;
use leasehold_conformance::server::free_port;

/// Members that are one service, each with ports and data of its own. Of three, two go on without the third.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<EtcdServer>,
}

impl EtcdCluster {
    /// Starts three members and waits until all of them serve.
    ///
    /// # Errors
    ///
    /// If etcd is not installed or does not start.
    pub fn start() -> Result<Self, Stop> {
        Self::start_of(3)
    }

    /// Starts so many members.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_of(members: usize) -> Result<Self, Stop> {
        let ports = (0..members).map(|_| free_port().map(|port| (port, port)));
        Self::start_at(&ports.collect::<Result<Vec<_>, _>>()?)
    }

    /// Starts members, each of which listens to the others at its first port, and is found by them at the second, a proxy's.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_at(peer_ports: &[(u16, u16)]) -> Result<Self, Stop> {
        if let [_] = peer_ports {
            return Ok(Self { members: vec![EtcdServer::start()?] });
        }
        let launches = (1..).zip(peer_ports).map(|(number, ports)| EtcdLaunch::new(number, *ports, &[]));
        let launches = launches.collect::<Result<Vec<_>, _>>()?;
        let all: Vec<String> = launches.iter().map(|launch| launch.cluster.clone()).collect();
        let members =
            launches.into_iter().map(|it| EtcdServer::launch(EtcdLaunch { cluster: all.join(","), ..it }));
        let cluster = Self { members: members.collect::<Result<_, _>>()? };
        cluster.wait_until_served(peer_ports.len())?;
        Ok(cluster)
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.members.iter().map(EtcdServer::address).collect();
        format!("etcd://{}", addresses.join(","))
    }

    /// The members. A member is known by its place here.
    pub fn members(&self) -> &[EtcdServer] {
        &self.members
    }

    /// The members, to be killed and restarted.
    pub fn members_mut(&mut self) -> &mut [EtcdServer] {
        &mut self.members
    }

    /// Waits until a leader and its followers are this many, and answers the leader. A leader that was replaced and does not
    /// know it is in an older term.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn wait_until_served(&self, members: usize) -> Result<usize, Stop> {
        let mut leads = None;
        wait_until("the members of etcd have agreed on a leader", || {
            let statuses: Vec<_> = self.members.iter().map(EtcdServer::status).collect();
            let Some(newest) = statuses.iter().flatten().max_by_key(|status| status.term) else {
                return false;
            };
            let follows =
                |status: &&EtcdStatus| (status.term, &status.leader) == (newest.term, &newest.leader);
            let following = statuses.iter().flatten().filter(follows).count();
            let is_leader = |status: &EtcdStatus| follows(&status) && status.id == newest.leader;
            leads = statuses.iter().position(|status| status.as_ref().is_some_and(is_leader));
            following >= members && leads.is_some_and(|leader| self.members[leader].serves())
        })?;
        leads.ok_or_else(|| Stop::failed("no leader"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

    use super::*;

    #[test]
    fn killed_leader_is_followed_by_another_and_comes_back_as_a_follower() {
        let mut cluster = EtcdCluster::start().unwrap();
        let first = cluster.wait_until_served(3).unwrap();
        cluster.members_mut()[first].kill();
        let second = cluster.wait_until_served(2).unwrap();
        assert_ne!(first, second);
        cluster.members_mut()[first].restart(true).unwrap();
        cluster.wait_until_served(3).unwrap();
    }
}
