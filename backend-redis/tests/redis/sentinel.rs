//! A Sentinel of its own, for as long as a test lasts.

use leasehold_conformance::server::{Launch, ServerProcess, free_port};
use leasehold_test_stores::servers::ask_redis;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A real Sentinel.
pub(crate) struct Sentinel {
    pub(crate) port: u16,
    _process: ServerProcess,
}

struct SentinelLaunch {
    port: u16,
    lines: String,
}

impl Sentinel {
    /// A Sentinel that watches nothing.
    pub(crate) fn start() -> Self {
        Self::start_with(String::new())
    }

    /// A Sentinel with more lines in its configuration.
    pub(crate) fn start_with(lines: String) -> Self {
        let port = free_port().unwrap();
        let process = ServerProcess::start(SentinelLaunch { port, lines }).unwrap();
        Self { port, _process: process }
    }
}

impl Launch for SentinelLaunch {
    fn command(&self, data: &Path) -> Command {
        let config = data.join("sentinel.conf");
        let Self { port, lines } = self;
        let text = format!("port {port}\nbind 127.0.0.1\ndir {}\n{lines}", data.display());
        std::fs::write(&config, text).unwrap();
        let server = data.join("redis-server");
        let _ = std::os::unix::fs::symlink(binary(), &server);
        let mut command = Command::new(server);
        command.arg(config).arg("--sentinel");
        command
    }

    fn is_ready(&self) -> bool {
        ask_redis(self.port, &["PING"]).is_ok_and(|answer| answer == "+PONG")
    }
}

/// Debian's redis-tools has the server's binary under another name.
fn binary() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut found = ["redis-server", "redis-check-rdb"].into_iter().flat_map(|name| {
        std::env::split_paths(&path)
            .map(move |directory| directory.join(name))
            .filter(|file| file.is_file())
            .collect::<Vec<_>>()
    });
    found.next().unwrap()
}
