use super::http::ask;
use crate::servers::on_path::on_path;
use leasehold_conformance::Stop;
use leasehold_conformance::server::{Launch, free_port};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Limit for the answer about a member's health.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Why no etcd can be started here, or `None` if one can.
pub fn etcd_server_missing() -> Option<String> {
    if on_path("etcd").is_none() {
        return Some("etcd is not installed (Debian package etcd-server)".to_owned());
    }
    on_path("etcdctl").is_none().then(|| "etcdctl is not installed (Debian package etcd-client)".to_owned())
}

/// One member: alone, or of a cluster.
pub(super) struct EtcdLaunch {
    pub(super) program: PathBuf,
    pub(super) name: String,
    pub(super) port: u16,
    /// The port for the other members, and the one at which they find it: its own, or a proxy's.
    pub(super) peer_ports: (u16, u16),
    /// All members as `name=URL`.
    pub(super) cluster: String,
    /// A port for clients with TLS.
    pub(super) tls_port: Option<u16>,
    pub(super) arguments: Vec<String>,
}

impl EtcdLaunch {
    pub(super) fn new(number: usize, peer_ports: (u16, u16), arguments: &[&str]) -> Result<Self, Stop> {
        let program = match etcd_server_missing() {
            None => on_path("etcd").ok_or_else(|| Stop::missing("etcd is not installed"))?,
            Some(missing) => return Err(Stop::missing(&missing)),
        };
        let name = format!("m{number}");
        let cluster = format!("{name}=http://127.0.0.1:{}", peer_ports.1);
        let (port, arguments) = (free_port()?, arguments.iter().map(ToString::to_string).collect());
        Ok(Self { program, name, port, peer_ports, cluster, tls_port: None, arguments })
    }
}

impl Launch for EtcdLaunch {
    fn command(&self, data: &Path) -> Command {
        let clients = format!("http://127.0.0.1:{}", self.port);
        let [peers, found] = <[u16; 2]>::from(self.peer_ports).map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(&self.program);
        command.args(["--name", &self.name, "--data-dir"]).arg(data.join("etcd"));
        // The last value counts where an argument is given twice.
        let tls = self.tls_port.map_or_else(String::new, |port| format!(",https://127.0.0.1:{port}"));
        let listened = clients.clone() + &tls;
        command.args(["--listen-client-urls", &listened, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &found]);
        command.args(["--initial-cluster", &self.cluster, "--logger", "zap", "--log-level", "error"]);
        command.args(&self.arguments);
        command
    }

    fn is_ready(&self) -> bool {
        if !self.cluster.contains(',') {
            return ask(self.port, "GET", "/health", "", ANSWERS_WITHIN).is_ok();
        }
        // A member cannot serve before the others are there, but it listens to them.
        TcpStream::connect(("127.0.0.1", self.peer_ports.0)).is_ok()
    }
}
