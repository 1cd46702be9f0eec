use super::http::{ask, field, sum};
use super::launch::EtcdLaunch;
use crate::servers::on_path::on_path;
use leasehold_conformance::server::{ServerProcess, free_port, run};
use leasehold_conformance::{Counters, Stop};
use std::process::Command;
use std::time::Duration;

/// Limit for the answer of a member about itself. A stopped one never answers.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The timing of a member alone: its least lease is one second.
const TIMING: [&str; 4] = ["--heartbeat-interval", "100", "--election-timeout", "600"];

/// A member of etcd of its own, alone unless a cluster has started it.
#[derive(Debug)]
pub struct EtcdServer {
    process: ServerProcess,
    port: u16,
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EtcdStatus {
    /// Its number in the cluster.
    pub id: String,
    /// The number of its leader; zero if it has none.
    pub leader: String,
    /// The raft term that it is in.
    pub term: u64,
}

impl EtcdServer {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// If it is not installed or does not start.
    pub fn start() -> Result<Self, Stop> {
        Self::start_with(&[])
    }

    /// Starts one with more arguments.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(arguments: &[&str]) -> Result<Self, Stop> {
        Self::start_alone(arguments, None)
    }

    /// Starts one that also takes clients with TLS, at this port. The arguments name its certificate.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with_tls(port: u16, arguments: &[&str]) -> Result<Self, Stop> {
        Self::start_alone(arguments, Some(port))
    }

    fn start_alone(arguments: &[&str], tls_port: Option<u16>) -> Result<Self, Stop> {
        let (peers, arguments) = (free_port()?, [&TIMING, arguments].concat());
        Self::launch(EtcdLaunch { tls_port, ..EtcdLaunch::new(1, (peers, peers), &arguments)? })
    }

    pub(super) fn launch(launch: EtcdLaunch) -> Result<Self, Stop> {
        let port = launch.port;
        Ok(Self { process: ServerProcess::start(launch)?, port })
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        format!("etcd://{}", self.address())
    }

    /// Runs `etcdctl` to its end, and answers what it printed.
    ///
    /// # Errors
    ///
    /// If it fails.
    pub fn ctl(&self, arguments: &[&str]) -> Result<String, Stop> {
        let output = run(self.ctl_command()?.args(arguments))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// `etcdctl` for this member.
    ///
    /// # Errors
    ///
    /// If it is not installed.
    pub fn ctl_command(&self) -> Result<Command, Stop> {
        let program = on_path("etcdctl").ok_or_else(|| Stop::missing("etcdctl is not installed"))?;
        let mut command = Command::new(program);
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.address()]);
        Ok(command)
    }

    /// What it says of itself; `None` if it does not answer.
    pub fn status(&self) -> Option<EtcdStatus> {
        let answer = ask(self.port, "POST", "/v3/maintenance/status", "{}", ANSWERS_WITHIN).ok()?;
        Some(EtcdStatus {
            id: field(&answer, "member_id")?.to_owned(),
            leader: field(&answer, "leader").unwrap_or("0").to_owned(),
            term: field(&answer, "raft_term")?.parse().ok()?,
        })
    }

    /// True if it answers a linearizable read.
    pub fn serves(&self) -> bool {
        let answer = ask(self.port, "GET", "/health", "", Duration::from_secs(2));
        answer.is_ok_and(|answer| answer.contains("true"))
    }

    /// The sum of its counters whose name begins with this: `etcd_server_proposals_committed_total`.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn counter(&self, name: &str) -> std::io::Result<u64> {
        Ok(sum(&ask(self.port, "GET", "/metrics", "", Duration::from_secs(5))?, name))
    }

    /// Messages both ways, events that were sent, and watches.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn traffic(&self) -> std::io::Result<Counters> {
        let metrics = ask(self.port, "GET", "/metrics", "", Duration::from_secs(5))?;
        let messages =
            sum(&metrics, "grpc_server_msg_received_total") + sum(&metrics, "grpc_server_msg_sent_total");
        let events = sum(&metrics, "etcd_debugging_mvcc_events_total");
        Ok(Counters::new(messages, events, sum(&metrics, "etcd_debugging_mvcc_watcher_total")))
    }
}

process_on_port!(EtcdServer);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

    use super::*;

    #[test]
    fn killed_member_can_be_started_again_on_its_port() {
        let mut server = EtcdServer::start().unwrap();
        server.ctl(&["put", "a", "1"]).unwrap();
        server.restart(true).unwrap();
        assert_eq!(server.ctl(&["get", "a", "--print-value-only"]).unwrap().trim(), "1");
        assert_eq!(server.status().map(|status| status.id == status.leader), Some(true));
        server.restart(false).unwrap();
        assert_eq!(server.ctl(&["get", "a", "--print-value-only"]).unwrap().trim(), "");
    }
}
