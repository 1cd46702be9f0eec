//! One server, and an ensemble of three that is asked only what needs several servers: the rest is asked of one, which is the
//! same code.

use super::group::{SHORT_SESSION, ZooKeeperGroup, ZooKeeperServers};
use crate::servers::{ZooKeeperEnsemble, ZooKeeperServer};
use crate::stores::members::MemberGroup;
use crate::stores::server_group::Environment;
use crate::stores::server_store::ServerStore;
use leasehold::semantics::Fault;
use leasehold_conformance::{Case, Members, Stop};
use std::slice::from_mut;

impl ZooKeeperServers for ZooKeeperServer {
    const SESSION: &str = SHORT_SESSION;

    fn can_meet(fault: Fault) -> Result<(), Stop> {
        match fault {
            Fault::FailOver | Fault::SplitBrain | Fault::MinorityDown => {
                Err(Stop::skipped("it is one server: no other one could take over, and none can be spared"))
            }
            _ => Ok(()),
        }
    }

    fn launch(environment: &Environment) -> Result<Self, Stop> {
        Self::start_in(environment)
    }

    fn each(&mut self) -> &mut [ZooKeeperServer] {
        from_mut(self)
    }

    fn ports(&self) -> Vec<u16> {
        vec![self.port()]
    }

    fn only_server(&self, _hook: &str) -> Result<&ZooKeeperServer, Stop> {
        Ok(self)
    }
}

/// The cases of exclusion and order across servers, and of servers that fail.
const COVERED_BY_ENSEMBLE: [&str; 8] = ["A01", "A05", "H01", "J17", "J19", "J20", "J38", "S01"];

impl ZooKeeperServers for ZooKeeperEnsemble {
    /// A session survives an election. Cases of one server measure holds with short sessions.
    const SESSION: &str = "session_timeout=9s";

    fn covers(case: &Case) -> Result<(), Stop> {
        let covered = COVERED_BY_ENSEMBLE.contains(&case.id);
        covered.then_some(()).ok_or_else(|| Stop::skipped("shown on one server, which is the same code"))
    }

    fn launch(environment: &Environment) -> Result<Self, Stop> {
        Self::start_in(environment)
    }

    fn each(&mut self) -> &mut [ZooKeeperServer] {
        self.members_mut()
    }

    fn ports(&self) -> Vec<u16> {
        self.ports()
    }

    fn settle(&self) -> Result<(), Stop> {
        self.wait_until_served(self.ports().len()).map(drop)
    }

    fn members(store: &ServerStore<ZooKeeperGroup<Self>>) -> Result<&dyn Members, Stop> {
        Ok(store)
    }
}

impl MemberGroup for ZooKeeperGroup<ZooKeeperEnsemble> {
    const INDEPENDENT: bool = false;

    fn leader_of(&mut self, serving: usize) -> Result<usize, Stop> {
        self.servers.wait_until_served(serving)
    }
}
