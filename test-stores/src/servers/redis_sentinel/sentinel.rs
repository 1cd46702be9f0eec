//! One Sentinel: its file, its pace, and what it sees.

use super::super::redis::{binary, command, server_command};
use super::super::wait::SETTLED_WITHIN;
use leasehold_conformance::Stop;
use leasehold_conformance::server::{Launch, ServerProcess};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What the Sentinels call the primary.
pub(super) const NAME: &str = "mm";

/// How long a Sentinel lets the primary be silent, in ms, so that a busy machine makes no fail-over.
pub(super) const DOWN_AFTER: &str = "10000";

/// The same once a fail-over is wanted.
pub(super) const DOWN_AFTER_ONCE_WANTED: &str = "300";

/// Shorter periods of a Sentinel: a fail-over takes one second instead of three, and a primary that comes back is told within
/// half a second that it is none. Pings keep a longer period: a replica is not promoted if it has been silent for five of them,
/// and a replica without its primary is asked once a second. No file takes these settings, so each start is followed by them.
const FASTER: &str = "SENTINEL DEBUG info-period 100 ping-period 250 ask-period 50 publish-period 100 \
    election-timeout 1000 min-link-reconnect-period 50";

#[derive(Debug)]
pub(super) struct Sentinel {
    pub(super) process: ServerProcess,
    pub(super) port: u16,
}

impl Sentinel {
    pub(super) fn start(number: usize, ports: &[u16], primary: u16, replica: u16) -> Result<Self, Stop> {
        let port = ports[number];
        let launch =
            SentinelLaunch { binary: binary()?, port, lines: lines(number, ports, primary, replica) };
        let sentinel = Self { process: ServerProcess::start(launch)?, port };
        sentinel.hurry()?;
        Ok(sentinel)
    }

    /// Sets the shorter periods.
    pub(super) fn hurry(&self) -> Result<(), Stop> {
        self.tell(&FASTER.split_whitespace().collect::<Vec<_>>())
    }

    pub(super) fn tell(&self, words: &[&str]) -> Result<(), Stop> {
        match command(self.port, words, SETTLED_WITHIN) {
            Ok(answer) if answer == "+OK" => Ok(()),
            answer => Err(Stop::failed(format!("a Sentinel answers {words:?} with {answer:?}"))),
        }
    }

    pub(super) fn primary_port(&self) -> Option<u16> {
        let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
        let answer = command(self.port, &question, Duration::from_secs(1)).ok()?;
        answer.lines().last()?.parse().ok()
    }

    /// True if it is in touch with the primary, its replica and the other Sentinels, and takes the primary for alive.
    pub(super) fn sees_all(&self, primary: u16) -> bool {
        let ask = |words: &[&str]| command(self.port, words, Duration::from_secs(1)).unwrap_or_default();
        let master = ask(&["SENTINEL", "MASTER", NAME]);
        let value = |key: &str| {
            let mut lines = master.lines().skip_while(|line| *line != key).skip(2);
            lines.next().unwrap_or_default().to_owned()
        };
        let replicas = ask(&["SENTINEL", "REPLICAS", NAME]);
        value("port") == primary.to_string()
            && value("flags") == "master"
            && value("num-other-sentinels") == "2"
            && replicas.contains("\nmaster-link-status\r\n$2\r\nok")
            && !replicas.contains("s_down")
    }
}

/// The file of one Sentinel. It has all that a Sentinel would otherwise find out, which takes time.
fn lines(number: usize, ports: &[u16], primary: u16, replica: u16) -> Vec<String> {
    let id = |number: usize| format!("{:040x}", number + 1);
    let mut lines = vec![
        format!("port {}", ports[number]),
        "bind 127.0.0.1".to_owned(),
        format!("sentinel myid {}", id(number)),
        format!("sentinel monitor {NAME} 127.0.0.1 {primary} 2"),
        format!("sentinel down-after-milliseconds {NAME} {}", DOWN_AFTER),
        format!("sentinel failover-timeout {NAME} 1000"),
        format!("sentinel known-replica {NAME} 127.0.0.1 {replica}"),
    ];
    let others = (0..ports.len()).filter(|other| *other != number);
    lines.extend(
        others
            .map(|other| format!("sentinel known-sentinel {NAME} 127.0.0.1 {} {}", ports[other], id(other))),
    );
    lines
}

struct SentinelLaunch {
    binary: PathBuf,
    port: u16,
    lines: Vec<String>,
}

impl Launch for SentinelLaunch {
    fn prepare(&self, data: &Path) -> Result<(), Stop> {
        let lines = self.lines.join("\n") + &format!("\ndir \"{}\"\n", data.display());
        std::fs::write(data.join("sentinel.conf"), lines)
            .map_err(|error| Stop::failed(format!("cannot write sentinel.conf: {error}")))
    }

    fn command(&self, data: &Path) -> Command {
        let mut command = server_command(&self.binary, data);
        command.arg(data.join("sentinel.conf")).arg("--sentinel");
        command
    }

    fn is_ready(&self) -> bool {
        command(self.port, &["PING"], Duration::from_secs(1)).is_ok_and(|answer| answer == "+PONG")
    }
}
