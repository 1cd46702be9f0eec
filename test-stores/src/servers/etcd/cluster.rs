use super::launch::EtcdLaunch;
use super::member::EtcdServer;
use leasehold_conformance::Stop;
use leasehold_conformance::server::free_port;
use std::time::{Duration, Instant};

/// Limit for an election. It takes two seconds on a quiet machine.
const ELECTED_WITHIN: Duration = Duration::from_secs(120);

/// Three members that are one service, each with ports and data of its own. Two of them go on without the third.
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
        let ports = [free_port()?, free_port()?, free_port()?];
        Self::start_at(ports.map(|port| (port, port)))
    }

    /// Starts three members, each of which listens to the others at its first port, and is found by them at the second, a proxy's.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_at(peer_ports: [(u16, u16); 3]) -> Result<Self, Stop> {
        let launches = (1..).zip(peer_ports).map(|(number, ports)| EtcdLaunch::new(number, ports, &[]));
        let launches = launches.collect::<Result<Vec<_>, _>>()?;
        let all: Vec<String> = launches.iter().map(|launch| launch.cluster.clone()).collect();
        let all = all.join(",");
        let members = launches.into_iter().map(|launch| EtcdServer::launch(launch.in_cluster(all.clone())));
        let cluster = Self { members: members.collect::<Result<_, _>>()? };
        cluster.wait_until_served(3)?;
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
        let start = Instant::now();
        while start.elapsed() < ELECTED_WITHIN {
            let statuses: Vec<_> = self.members.iter().map(EtcdServer::status).collect();
            let newest = statuses.iter().flatten().max_by_key(|status| status.term);
            if let Some(newest) = newest {
                let in_term = || statuses.iter().flatten().filter(|status| status.term == newest.term);
                let following = in_term().filter(|status| status.leader == newest.leader).count();
                let leader = statuses.iter().position(|status| {
                    status
                        .as_ref()
                        .is_some_and(|status| status.id == newest.leader && status.leader == newest.leader)
                });
                if let Some(leader) =
                    leader.filter(|leader| following >= members && self.members[*leader].serves())
                {
                    return Ok(leader);
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(Stop::failed(format!("{members} members of etcd have agreed on no leader")))
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
