use super::classes::archive;
use super::four_letter_words::{ask_zookeeper, numbers};
use super::launch::ZooKeeperLaunch;
use leasehold_conformance::Counters;
use leasehold_conformance::Stop;
use leasehold_conformance::server::{ServerProcess, free_port};
use std::collections::BTreeMap;
use std::time::Duration;

/// The server's sums of watches fired, by what fired them.
const FIRED: [&str; 4] = [
    "zk_sum_node_created_watch_count",
    "zk_sum_node_deleted_watch_count",
    "zk_sum_node_changed_watch_count",
    "zk_sum_node_children_watch_count",
];

/// A standalone ZooKeeper server of its own, which keeps on disk what it has acknowledged.
///
/// It ticks ten times a second: sessions may be as short as 300 ms, and end within a tick of their time-out.
#[derive(Debug)]
pub struct ZooKeeperServer {
    process: ServerProcess,
    port: u16,
}

impl ZooKeeperServer {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// If it is not installed or does not start.
    pub fn start() -> Result<Self, Stop> {
        Self::start_with(&[])
    }

    /// Starts one with more lines of configuration, such as `["maxClientCnxns=2"]`. Lines that begin with `-`, such
    /// as `-Xmx1g`, are for the virtual machine.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(lines: &[&str]) -> Result<Self, Stop> {
        let lines = lines.iter().map(ToString::to_string).collect();
        Self::launch(ZooKeeperLaunch::standalone(free_port()?, lines)?)
    }

    /// Starts one in this environment.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_in(environment: &[(String, String)]) -> Result<Self, Stop> {
        let mut launch = ZooKeeperLaunch::standalone(free_port()?, Vec::new())?;
        launch.environment = environment.to_vec();
        Self::launch(launch)
    }

    pub(super) fn launch(mut launch: ZooKeeperLaunch) -> Result<Self, Stop> {
        launch.classes =
            archive(&launch.java).map(|file| format!("-XX:SharedArchiveFile={}", file.display()));
        let port = launch.port;
        Ok(Self { process: ServerProcess::start(launch)?, port })
    }

    /// `127.0.0.1:PORT`, as ZooKeeper's own clients take it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        format!("zk://{}", self.address())
    }

    /// What the server answers to a four-letter word: `mntr`, `cons`, `wchp`. The client under test is not asked.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn ask(&self, word: &str) -> std::io::Result<String> {
        ask_zookeeper(self.port, word, Duration::from_secs(5))
    }

    /// A counter of the server, as `mntr` has it: `zk_packets_received`, `zk_sum_node_deleted_watch_count`.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or does not count that.
    pub fn counter(&self, name: &str) -> std::io::Result<u64> {
        let counters = self.counters()?;
        let value = counters.get(name).copied();
        value.ok_or_else(|| std::io::Error::other(format!("the server does not count {name}")))
    }

    /// Packets both ways, watches fired, and watches set.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn traffic(&self) -> std::io::Result<Counters> {
        let counters = self.counters()?;
        let count = |name: &str| counters.get(name).copied().unwrap_or_default();
        let fired: u64 = FIRED.into_iter().map(count).sum();
        let packets = count("zk_packets_received") + count("zk_packets_sent");
        Ok(Counters::new(packets, fired, count("zk_watch_count")))
    }

    /// All counters of `mntr` that are whole numbers.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn counters(&self) -> std::io::Result<BTreeMap<String, u64>> {
        Ok(numbers(&self.ask("mntr")?))
    }
}

process_on_port!(ZooKeeperServer);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

    use super::super::classes;
    use super::super::launch::{installed, zookeeper_server_missing};
    use super::*;
    use leasehold_conformance::server::disk_missing;
    use zookeeper_client::{Acls, Client, CreateMode};

    #[test]
    fn killed_server_can_be_started_again_on_its_port() {
        let mut server = ZooKeeperServer::start().unwrap();
        assert!(server.ask("srvr").unwrap().contains("standalone"));
        assert_eq!(server.counter("zk_watch_count").unwrap(), 0);
        server.restart(true).unwrap();
        assert!(server.ask("srvr").unwrap().contains("standalone"));
        server.restart(false).unwrap();
        assert!(server.ask("srvr").unwrap().contains("standalone"));
    }

    #[test]
    fn server_maps_the_archive_of_classes() {
        if zookeeper_server_missing().is_some() || archive(&installed().unwrap()).is_none() {
            return;
        }
        let server = ZooKeeperServer::start().unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.id().unwrap())).unwrap();
        assert!(maps.contains(classes::FILE), "{maps}");
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    /// True if a node that was acknowledged before the power was lost is there afterwards.
    fn keeps_a_node(mut server: ZooKeeperServer) -> bool {
        run(async {
            let client = Client::connect(&server.address()).await.unwrap();
            let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
            client.create("/kept", b"", &options).await.unwrap();
        });
        server.lose_power().unwrap();
        server.restart(true).unwrap();
        // A new client: the server refuses a client that has seen a later transaction than its own last one.
        run(async {
            let client = Client::connect(&server.address()).await.unwrap();
            client.check_stat("/kept").await.unwrap().is_some()
        })
    }

    #[test]
    fn power_loss_discards_unsynced_writes() {
        if let Some(why) = disk_missing() {
            eprintln!("not run: {why}");
            return;
        }
        let mut careful = ZooKeeperServer::start().unwrap();
        careful.sync_to_own_disk().unwrap();
        assert!(keeps_a_node(careful));
        let mut careless = ZooKeeperServer::start().unwrap();
        careless.process.move_to_own_disk().unwrap();
        assert!(!keeps_a_node(careless));
    }
}
