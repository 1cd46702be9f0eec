//! A lock of another library, in a process of its own, taken and released on command.

use leasehold_test_stores::servers::{redis_server_missing, zookeeper_server_missing};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The library of the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Library {
    /// Java: Apache Curator's `InterProcessMutex`.
    Curator,
    /// Java: the locks of Apache Curator's `InterProcessReadWriteLock`.
    CuratorRead,
    CuratorWrite,
    /// Python: kazoo's `Lock`, with two lines that give its places Curator's names.
    Kazoo,
    /// Python: kazoo's locks, with `extra_lock_patterns` for our places.
    KazooWithPatterns,
    KazooRead,
    KazooWrite,
    /// Python: redis-py's `Lock`.
    RedisPy,
}

impl Library {
    /// Why it cannot be run here, or `None` if it can.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let (is_there, missing) = match self {
            Self::Curator | Self::CuratorRead | Self::CuratorWrite => {
                return (!CURATOR.iter().all(|jar| Path::new(jar).is_file())
                    || !runs("javac", &["-version"]))
                .then_some("no Curator (Debian packages libcurator-recipes-java default-jdk-headless)");
            }
            Self::Kazoo | Self::KazooWithPatterns | Self::KazooRead | Self::KazooWrite => {
                (runs(PYTHON, &["-c", "import kazoo"]), "no kazoo (Debian package python3-kazoo)")
            }
            Self::RedisPy => {
                (runs(PYTHON, &["-c", "import redis"]), "no redis-py (Debian package python3-redis)")
            }
        };
        (!is_there).then_some(missing)
    }

    /// The kind of lock, as the program of the library is told it.
    fn kind(self) -> Option<&'static str> {
        match self {
            Self::CuratorRead | Self::KazooRead => Some("read"),
            Self::CuratorWrite | Self::KazooWrite => Some("write"),
            Self::KazooWithPatterns => Some("patterns"),
            Self::Curator | Self::Kazoo | Self::RedisPy => None,
        }
    }

    /// Why its server cannot be started here.
    pub(crate) fn server_missing(self) -> Option<String> {
        match self {
            Self::RedisPy => redis_server_missing(),
            _ => zookeeper_server_missing(),
        }
    }
}

/// Debian's Curator and what it needs; the manifest of zookeeper.jar names the rest.
const CURATOR: [&str; 6] = [
    "/usr/share/java/curator-recipes.jar",
    "/usr/share/java/curator-framework.jar",
    "/usr/share/java/curator-client.jar",
    "/usr/share/java/zookeeper.jar",
    "/usr/share/java/guava.jar",
    "/usr/share/java/slf4j-nop.jar",
];

/// Debian's own, for which the package is; another one may come first in the path.
const PYTHON: &str = "/usr/bin/python3";

/// The process. Killed when dropped; if this process is killed before, the end of its requests is its end.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts one for the lock of this path or key, with sessions of a second or leases of two.
    pub(crate) fn start(library: Library, servers: &str, path: &str) -> Self {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/peers");
        let mut command = match library {
            Library::Curator | Library::CuratorRead | Library::CuratorWrite => {
                let mut java = Command::new("java");
                java.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
                java.arg(CURATOR.join(":")).arg(peers.join("CuratorPeer.java"));
                java
            }
            _ => {
                let script = if library == Library::RedisPy { "redis_peer.py" } else { "kazoo_peer.py" };
                let mut python = Command::new(PYTHON);
                python.arg(peers.join(script));
                python
            }
        };
        let time = if library == Library::RedisPy { "2000" } else { "1000" };
        command.args([servers, path, time]).args(library.kind()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (requests, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut peer = Self { child, requests, answers: BufReader::new(answers) };
        assert_eq!(peer.answer(), "ready", "{library:?} did not come up");
        peer
    }

    /// Tries for so long; true if it holds then.
    pub(crate) fn acquire(&mut self, wait: Duration) -> bool {
        self.begin_acquire(wait);
        self.acquired()
    }

    /// Begins to try, and does not wait for the end of it.
    pub(crate) fn begin_acquire(&mut self, wait: Duration) {
        self.request(&format!("acquire {}", wait.as_millis()));
    }

    /// How that came out.
    pub(crate) fn acquired(&mut self) -> bool {
        match self.answer().as_str() {
            "held" => true,
            "refused" => false,
            other => panic!("a peer said {other:?}"),
        }
    }

    pub(crate) fn release(&mut self) {
        self.request("release");
        assert_eq!(self.answer(), "released");
    }

    /// Ends it as a crash would: its session or lease is left to the server.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn request(&mut self, request: &str) {
        writeln!(self.requests, "{request}").unwrap();
        self.requests.flush().unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn runs(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
