use super::MariaDbServer;
use super::template::copy_of;
use leasehold_conformance::Stop;
use leasehold_conformance::server::run;
use leasehold_conformance::server::{Launch, ServerProcess, free_port};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A `mysqld` of Oracle's MySQL, unpacked by `scripts/get-mysql` and named by the environment variable
/// [`FOLDER`](Self::FOLDER). Its administrator is `root`, without a password; there is one empty database,
/// [`DATABASE`](Self::DATABASE).
#[derive(Debug)]
pub struct MySqlServer {
    process: ServerProcess,
    port: u16,
}

impl MySqlServer {
    /// The variable that names the folder of the unpacked packages.
    pub const FOLDER: &str = "LEASEHOLD_MYSQL";
    /// The empty database that there is.
    pub const DATABASE: &str = MariaDbServer::DATABASE;

    /// Starts one that has on disk what it has committed, as far as a crash of the process goes.
    ///
    /// # Errors
    ///
    /// If it is not there or does not start.
    pub fn start() -> Result<Self, Stop> {
        let folder = std::env::var_os(Self::FOLDER).map(PathBuf::from);
        let missing = || Stop::failed(format!("{} is not set", Self::FOLDER));
        let port = free_port()?;
        let launch = MySqlLaunch { folder: folder.ok_or_else(missing)?, port, syncs: false };
        let process = ServerProcess::start(launch)?;
        Ok(Self { process, port })
    }
}

process_on_port!(MySqlServer);

struct MySqlLaunch {
    folder: PathBuf,
    port: u16,
    syncs: bool,
}

impl MySqlLaunch {
    /// Runs by the loader that it was unpacked with: it is built for a newer C library than this system's.
    fn mysqld(&self) -> Command {
        let libraries = self.folder.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
        let private = self.folder.join("usr/lib/mysql/private");
        command.arg("--library-path").arg(format!("{}:{}", libraries.display(), private.display()));
        command.arg(self.folder.join("usr/sbin/mysqld")).arg("--no-defaults");
        command.arg(format!("--user={}", super::mariadb::user()));
        command
            .arg(format!("--basedir={}", self.folder.join("usr").display()))
            .arg("--secure-file-priv=NULL");
        command
    }
}

impl Launch for MySqlLaunch {
    fn prepare(&self, data: &Path) -> Result<(), Stop> {
        let version = run(self.mysqld().arg("--version"))?.stdout;
        let version = String::from_utf8_lossy(&version);
        let version =
            version.split_whitespace().skip_while(|word| *word != "Ver").nth(1).unwrap_or("unknown");
        copy_of(&format!("mysql-{version}"), data, |template| {
            let first = template.join("first.sql");
            let statements = "CREATE USER 'root'@'127.0.0.1';\n\
                              GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\nCREATE DATABASE locks;\n";
            std::fs::write(&first, statements).map_err(|error| Stop::failed(error.to_string()))?;
            run(self
                .mysqld()
                .args(["--initialize-insecure", "--innodb-redo-log-capacity=8388608"])
                .arg(format!("--init-file={}", first.display()))
                .arg(format!("--datadir={}", template.join("db").display())))
            .map(drop)
        })
    }

    fn command(&self, data: &Path) -> Command {
        let mut command = self.mysqld();
        let place = |what: &str, file: &str| format!("--{what}={}", data.join(file).display());
        command.args([place("datadir", "db"), place("socket", "socket"), place("pid-file", "pid")]);
        command.args([&format!("--port={}", self.port), "--bind-address=127.0.0.1", "--skip-name-resolve"]);
        command.args(["--mysqlx=OFF", "--disable-log-bin", "--performance-schema=OFF"]);
        if !self.syncs {
            // As with MariaDB, a commit has been given to the kernel.
            command.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync"]);
        }
        command.args(["--innodb-redo-log-capacity=8388608", "--innodb-buffer-pool-size=32M"]);
        command
    }

    fn sync_each_write(&mut self) {
        self.syncs = true;
    }

    fn is_ready(&self) -> bool {
        super::mariadb::greets(self.port)
    }
}
