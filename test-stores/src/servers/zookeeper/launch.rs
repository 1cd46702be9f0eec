use super::four_letter_words::{ask_zookeeper, role};
use crate::servers::on_path::on_path;
use leasehold_conformance::Stop;
use leasehold_conformance::server::Launch;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Debian's `libzookeeper-java`. The manifest of the first names whatever else it needs, except a logger.
pub(super) const JARS: [&str; 2] = ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"];

/// The jars that a server with TLS needs as well: the manifest forgets them.
const JARS_FOR_TLS: [&str; 2] = ["/usr/share/java/netty-codec.jar", "/usr/share/java/netty-resolver.jar"];

/// The user, with its password, whom no access list binds.
pub const ZOOKEEPER_SUPER_USER: &str = "super:admin";

/// Options of the virtual machine, for a server that starts fast and stays small.
const JAVA: [&str; 8] = [
    "-Xmx192m",
    "-XX:+UseSerialGC",
    // The second compiler costs more than it gains in a life of seconds.
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    // The digest of ZOOKEEPER_SUPER_USER.
    "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:xQJmxLMiHGwaqBvst5y6rkB6HQs=",
    // Empty container nodes are looked for every minute by default.
    "-Dznode.container.checkIntervalMs=1000",
    // Without it, a member of 3.8.0 that is sent only the difference after a restart of all members may lack transactions for good:
    // it denied nodes that the others had in 2 of 16 restarts, and in none of 56 with it (like ZOOKEEPER-4785).
    "-Dzookeeper.forceSnapshotSync=true",
];

/// Configuration of every server. `tickTime` is the grain of session ends.
const CONFIGURATION: &str = "\
tickTime=100
minSessionTimeout=300
maxSessionTimeout=60000
admin.enableServer=false
4lw.commands.whitelist=*
maxClientCnxns=0
preAllocSize=64
";

/// Limit for the answer to a four-letter word.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Why no ZooKeeper can be started here, or `None` if one can.
pub fn zookeeper_server_missing() -> Option<String> {
    if on_path("java").is_none() {
        return Some("java is not installed (Debian package default-jre-headless)".to_owned());
    }
    let missing = JARS.iter().find(|jar| !Path::new(jar).is_file())?;
    Some(format!("{missing} is not there (Debian package libzookeeper-java)"))
}

/// One server: alone, or a member of an ensemble.
pub(super) struct ZooKeeperLaunch {
    pub(super) java: PathBuf,
    pub(super) port: u16,
    /// Lines of configuration beside [`CONFIGURATION`], and options of the virtual machine.
    lines: Vec<String>,
    /// False leaves it to the kernel when a write reaches the disk: a server that is killed loses nothing.
    syncs: bool,
    /// The server's number in the ensemble, from one.
    member: Option<usize>,
    pub(super) environment: Vec<(String, String)>,
    /// The option of the virtual machine that names an archive of classes.
    pub(super) classes: Option<String>,
}

impl ZooKeeperLaunch {
    pub(super) fn standalone(port: u16, mut lines: Vec<String>) -> Result<Self, Stop> {
        lines.extend([format!("clientPort={port}"), "clientPortAddress=127.0.0.1".to_owned()]);
        let (member, environment, classes) = (None, Vec::new(), None);
        Ok(Self { java: installed()?, port, lines, syncs: false, member, environment, classes })
    }

    pub(super) fn member(number: usize, port: u16, lines: Vec<String>) -> Result<Self, Stop> {
        Ok(Self { member: Some(number), lines, ..Self::standalone(port, Vec::new())? })
    }

    fn configuration(&self, data: &Path) -> String {
        let lines: Vec<&str> =
            self.lines.iter().map(String::as_str).filter(|line| !is_for_java(line)).collect();
        let syncs = if self.syncs { "yes" } else { "no" };
        format!("{CONFIGURATION}forceSync={syncs}\ndataDir={}\n{}\n", data.display(), lines.join("\n"))
    }
}

impl Launch for ZooKeeperLaunch {
    fn command(&self, data: &Path) -> Command {
        let file = data.join("zoo.cfg");
        // These files are written at each start, because a server that loses its data loses them too. If one could not be
        // written, the server ends.
        let _ = std::fs::write(&file, self.configuration(data));
        if let Some(number) = self.member {
            let _ = std::fs::write(data.join("myid"), number.to_string());
        }
        let mut command = Command::new(&self.java);
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.args(JAVA).args(&self.classes).arg("-Dzookeeper.fastleader.minNotificationInterval=50");
        command.args(self.lines.iter().filter(|line| is_for_java(line)));
        command.arg("-cp").arg([JARS, JARS_FOR_TLS].concat().join(":"));
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(file);
        command
    }

    fn sync_each_write(&mut self) {
        self.syncs = true;
    }

    fn is_ready(&self) -> bool {
        match self.member {
            None => role(self.port, ANSWERS_WITHIN).is_some(),
            // A member cannot serve before the others are there, but it listens.
            Some(_) => ask_zookeeper(self.port, "ruok", ANSWERS_WITHIN).is_ok(),
        }
    }
}

/// True for an option of the virtual machine, which takes the last where two disagree.
fn is_for_java(line: &str) -> bool {
    line.starts_with('-')
}

pub(super) fn installed() -> Result<PathBuf, Stop> {
    match zookeeper_server_missing() {
        None => on_path("java").ok_or_else(|| Stop::missing("java is not installed")),
        Some(missing) => Err(Stop::missing(&missing)),
    }
}
