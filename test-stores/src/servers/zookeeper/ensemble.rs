use super::four_letter_words::{ZooKeeperRole, role};
use super::launch::ZooKeeperLaunch;
use super::server::ZooKeeperServer;
use crate::servers::wait::wait_until;
use leasehold_conformance::Stop;
use leasehold_conformance::server::free_port;
use std::time::Duration;

/// Limit for the answer of a member about its role. A stopped one never answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// ZooKeeper servers that are one service, each with ports and data of its own.
///
/// Of three, two go on without the third; a leader that is silent for 1.5 s is replaced.
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    members: Vec<ZooKeeperServer>,
}

/// The ports of one member.
#[derive(Clone, Copy)]
struct MemberPorts {
    clients: u16,
    quorum: u16,
    election: u16,
}

impl ZooKeeperEnsemble {
    /// Starts three servers and waits until they have a leader and all follow it.
    ///
    /// # Errors
    ///
    /// If ZooKeeper is not installed or does not start.
    pub fn start() -> Result<Self, Stop> {
        Self::start_of(3, &[])
    }

    /// Starts so many in this environment.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_of(members: usize, environment: &[(String, String)]) -> Result<Self, Stop> {
        if members == 1 {
            return Ok(Self { members: vec![ZooKeeperServer::start_in(environment)?] });
        }
        let ports = (0..members).map(|_| MemberPorts::free()).collect::<Result<Vec<_>, _>>()?;
        let lines = configuration(&ports);
        // All start at once: one after the other takes three times as long.
        let members: Result<_, _> = std::thread::scope(|scope| {
            let starts: Vec<_> = (1..)
                .zip(&ports)
                .map(|(number, ports)| ZooKeeperLaunch::member(number, ports.clients, lines.clone()))
                .map(|launch| {
                    scope.spawn(|| {
                        let mut launch = launch?;
                        launch.environment = environment.to_vec();
                        ZooKeeperServer::launch(launch)
                    })
                })
                .collect();
            starts.into_iter().map(|start| start.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        let ensemble = Self { members: members? };
        ensemble.wait_until_served(ports.len())?;
        Ok(ensemble)
    }

    /// `127.0.0.1:P,127.0.0.1:Q,127.0.0.1:R`, as ZooKeeper's own clients take it.
    pub fn address(&self) -> String {
        let addresses: Vec<String> = self.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        addresses.join(",")
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        format!("zk://{}", self.address())
    }

    /// The members' ports on 127.0.0.1. A member is known by its place here.
    pub fn ports(&self) -> Vec<u16> {
        self.members.iter().map(ZooKeeperServer::port).collect()
    }

    /// What each member says of itself; `None` of one that does not serve.
    pub fn roles(&self) -> Vec<Option<ZooKeeperRole>> {
        self.members.iter().map(|member| role(member.port(), ANSWERS_WITHIN)).collect()
    }

    /// Waits until a leader and its followers are this many, and answers the leader.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn wait_until_served(&self, members: usize) -> Result<usize, Stop> {
        let mut leads = None;
        wait_until("the ZooKeeper servers have agreed on a leader", || {
            let roles = self.roles();
            leads = roles.iter().position(|role| *role == Some(ZooKeeperRole::Leader));
            leads.is_some() && roles.iter().flatten().count() >= members
        })?;
        leads.ok_or_else(|| Stop::failed("no leader"))
    }

    /// Kills one member, as a crash would. It stays down until [`restart`](Self::restart).
    pub fn kill(&mut self, member: usize) {
        self.members[member].kill();
    }

    /// Stops one member without closing a connection.
    pub fn pause(&self, member: usize) {
        self.members[member].pause();
    }

    /// Lets it go on.
    pub fn resume(&self, member: usize) {
        self.members[member].resume();
    }

    /// The members, in the order of their ports.
    pub fn members(&self) -> &[ZooKeeperServer] {
        &self.members
    }

    /// The same, to be harmed.
    pub fn members_mut(&mut self) -> &mut [ZooKeeperServer] {
        &mut self.members
    }

    /// Starts one member again, with what it had written or with nothing. It joins the others by itself, a moment
    /// later.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn restart(&mut self, member: usize, keep_data: bool) -> Result<(), Stop> {
        self.members[member].restart(keep_data)
    }
}

impl MemberPorts {
    fn free() -> Result<Self, Stop> {
        Ok(Self { clients: free_port()?, quorum: free_port()?, election: free_port()? })
    }
}

fn configuration(ports: &[MemberPorts]) -> Vec<String> {
    let mut lines = vec!["initLimit=100".to_owned(), "syncLimit=15".to_owned()];
    lines.extend((1..).zip(ports).map(|(number, MemberPorts { clients, quorum, election })| {
        format!("server.{number}=127.0.0.1:{quorum}:{election}:participant;127.0.0.1:{clients}")
    }));
    lines
}

fn panicked() -> Stop {
    Stop::failed("the thread that starts a server panicked")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

    use super::*;

    #[test]
    fn killed_leader_is_followed_by_another_and_comes_back_as_a_follower() {
        let mut ensemble = ZooKeeperEnsemble::start().unwrap();
        let first = ensemble.wait_until_served(3).unwrap();
        ensemble.kill(first);
        let second = ensemble.wait_until_served(2).unwrap();
        assert_ne!(first, second);
        ensemble.restart(first, true).unwrap();
        assert_eq!(ensemble.wait_until_served(3).unwrap(), second);
    }
}
