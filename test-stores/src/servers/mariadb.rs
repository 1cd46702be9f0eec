use super::template::copy_of;
use leasehold_conformance::Stop;
use leasehold_conformance::server::run;
use leasehold_conformance::server::{Launch, ServerProcess, free_port};
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A `mariadbd` of its own, ready in about a tenth of a second. Its administrator is `root`, without a password; there
/// is one empty database, [`DATABASE`](Self::DATABASE).
#[derive(Debug)]
pub struct MariaDbServer {
    process: ServerProcess,
    port: u16,
}

/// Why no MariaDB can be started here, or `None` if one can.
pub fn mariadb_server_missing() -> Option<String> {
    let there = binary().is_some() && super::on_path::on_path("mariadb-install-db").is_some();
    (!there).then(|| {
        "mariadbd is not installed (Debian packages mariadb-server-core and mariadb-client-core)".to_owned()
    })
}

impl MariaDbServer {
    /// The empty database that there is.
    pub const DATABASE: &str = "locks";

    /// Starts one that has on disk what it has committed, as far as a crash of the process goes.
    ///
    /// # Errors
    ///
    /// If it is not installed or does not start.
    pub fn start() -> Result<Self, Stop> {
        Self::start_with(&[], &[])
    }

    /// Starts one with more arguments, such as `["--read-only"]`, and with this environment.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(arguments: &[&str], environment: &[(String, String)]) -> Result<Self, Stop> {
        let binary = binary()
            .filter(|_| mariadb_server_missing().is_none())
            .ok_or_else(|| Stop::missing(&mariadb_server_missing().unwrap_or_default()))?;
        let port = free_port()?;
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let environment = environment.to_vec();
        let process =
            ServerProcess::start(MariaDbLaunch { binary, port, syncs: false, arguments, environment })?;
        Ok(Self { process, port })
    }
}

process_on_port!(MariaDbServer);

struct MariaDbLaunch {
    binary: PathBuf,
    port: u16,
    syncs: bool,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Launch for MariaDbLaunch {
    fn prepare(&self, data: &Path) -> Result<(), Stop> {
        let version = run(Command::new(&self.binary).arg("--version"))?.stdout;
        let version = String::from_utf8_lossy(&version);
        let version = version.split_whitespace().nth(2).unwrap_or("unknown");
        copy_of(&format!("mariadb-{version}"), data, |template| {
            let data = template.join("db");
            run(Command::new("mariadb-install-db")
                .args(["--no-defaults", "--skip-test-db", "--force", "--innodb-log-file-size=4M"])
                .arg("--auth-root-authentication-method=normal")
                .arg(format!("--user={}", user()))
                .arg(format!("--datadir={}", data.display())))?;
            std::fs::create_dir(data.join(MariaDbServer::DATABASE))
                .map_err(|error| Stop::failed(format!("no database: {error}")))
        })
    }

    fn command(&self, data: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        let place = |what: &str, file: &str| format!("--{what}={}", data.join(file).display());
        command.arg("--no-defaults").arg(format!("--user={}", user()));
        command.args([place("datadir", "db"), place("socket", "socket"), place("pid-file", "pid")]);
        // Names of temporary tables are made of process numbers, which in two containers on one /tmp are the same.
        command.arg(place("tmpdir", ""));
        command.args([&format!("--port={}", self.port), "--bind-address=127.0.0.1", "--skip-name-resolve"]);
        if !self.syncs {
            // flush-log-at-trx-commit=2 gives a commit to the kernel, which survives the process; 0 would not.
            command.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync"]);
        }
        command.args(["--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M", "--key-buffer-size=8M"]);
        command
            .args(["--innodb-buffer-pool-load-at-startup=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF"]);
        command.args(["--aria-pagecache-buffer-size=8M", "--performance-schema=OFF"]);
        command.args(&self.arguments).envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }

    fn sync_each_write(&mut self) {
        self.syncs = true;
    }

    fn is_ready(&self) -> bool {
        greets(self.port)
    }
}

/// True if it greets with protocol 10; while it starts, it does not accept at all.
pub(super) fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).is_ok() && greeting[4] == 10
}

/// mariadbd, and mysqld, refuse to be root unless they are told to.
pub(super) fn user() -> String {
    match rustix::process::getuid() {
        root if root.is_root() => "root".to_owned(),
        _ => std::env::var("USER").unwrap_or_default(),
    }
}

fn binary() -> Option<PathBuf> {
    super::on_path::on_path("mariadbd")
        .or_else(|| Some(PathBuf::from("/usr/sbin/mariadbd")).filter(|file| file.is_file()))
}
