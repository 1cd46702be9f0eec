use super::template::copy_of;
use leasehold_conformance::Stop;
use leasehold_conformance::server::run;
use leasehold_conformance::server::{Launch, ServerProcess, free_port};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A `postgres` of its own, ready in about thirty milliseconds. Its administrator is `postgres`, without a password;
/// the database is `postgres` too, the only one, and there is no template to make another from.
#[derive(Debug)]
pub struct PostgresServer {
    process: ServerProcess,
    port: u16,
}

/// Why no PostgreSQL can be started here, or `None` if one can.
pub fn postgres_server_missing() -> Option<String> {
    binary("postgres").is_none().then(|| "postgres is not installed (Debian package postgresql)".to_owned())
}

impl PostgresServer {
    /// Starts one that has on disk what it has committed, as far as a crash of the process goes.
    ///
    /// # Errors
    ///
    /// If it is not installed or does not start.
    pub fn start() -> Result<Self, Stop> {
        Self::start_with(&[], &[])
    }

    /// Starts a hot standby that follows this primary asynchronously.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_standby_of(primary: &Self) -> Result<Self, Stop> {
        Self::launch(&[], &[], Some(primary.port))
    }

    /// Starts one with more arguments, such as `["-c", "max_connections=10"]`, and with this environment.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(arguments: &[&str], environment: &[(String, String)]) -> Result<Self, Stop> {
        Self::launch(arguments, environment, None)
    }

    fn launch(
        arguments: &[&str],
        environment: &[(String, String)],
        follows: Option<u16>,
    ) -> Result<Self, Stop> {
        let missing = || Stop::missing(&postgres_server_missing().unwrap_or_default());
        let launch = PostgresLaunch {
            postgres: binary("postgres").ok_or_else(missing)?,
            initdb: binary("initdb").ok_or_else(missing)?,
            follows,
            port: free_port()?,
            syncs: false,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            environment: environment.to_vec(),
        };
        let port = launch.port;
        Ok(Self { process: ServerProcess::start(launch)?, port })
    }
}

process_on_port!(PostgresServer);

struct PostgresLaunch {
    postgres: PathBuf,
    initdb: PathBuf,
    /// The port of the primary that it follows, if it is a standby.
    follows: Option<u16>,
    port: u16,
    syncs: bool,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Launch for PostgresLaunch {
    fn prepare(&self, data: &Path) -> Result<(), Stop> {
        // The server runs as another user, and must be able to get to its own directory in here.
        std::fs::set_permissions(data, std::fs::Permissions::from_mode(0o711))
            .map_err(|error| Stop::failed(format!("cannot open its directory: {error}")))?;
        if let Some(primary) = self.follows {
            return follow(primary, &data.join("db"));
        }
        let version = run(Command::new(&self.postgres).arg("--version"))?.stdout;
        let version = String::from_utf8_lossy(&version);
        let version = version.split_whitespace().nth(2).unwrap_or("unknown");
        copy_of(&format!("postgres-one-{version}"), data, |template| {
            let data = template.join("db");
            own_directory(&data)?;
            if rustix::process::getuid().is_root() {
                std::fs::set_permissions(template, std::fs::Permissions::from_mode(0o711))
                    .map_err(|error| Stop::failed(error.to_string()))?;
            }
            let mut initdb = not_as_root(&self.initdb);
            initdb.args(["-A", "trust", "-U", "postgres"]).args(["-N", "-E", "UTF8"]);
            initdb.args(["--locale=C", "--wal-segsize=1"]);
            initdb.arg("-D").arg(&data);
            run(initdb.current_dir("/"))?;
            keep_one_database(&self.postgres, &data)
        })
    }

    fn command(&self, data: &Path) -> Command {
        let mut command = not_as_root(&self.postgres);
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.arg("-D").arg(data.join("db")).args(["-p", &self.port.to_string(), "-h", "127.0.0.1"]);
        if !self.syncs {
            // Without fsync, a commit has been given to the kernel, which survives the process.
            command.arg("-F");
        }
        command.args(["-c", "unix_socket_directories=", "-c", "shared_buffers=16MB"]);
        // In files among its data, which are removed with it.
        command.args(["-c", "dynamic_shared_memory_type=mmap"]);
        command.args(&self.arguments).current_dir("/");
        command
    }

    fn sync_each_write(&mut self) {
        self.syncs = true;
    }

    /// The shared memory by which a server finds out that another one is on its data. The kernel keeps it for ever, and has
    /// room for 4096 such: thousands of killed servers would fill it.
    fn bury(&self, data: &Path) {
        if let Some(segment) = shared_memory(data) {
            let _ = Command::new("ipcrm").arg("-m").arg(segment).stderr(Stdio::null()).status();
        }
    }

    /// True if it lets a client in; while it starts, it answers with an error.
    fn is_ready(&self) -> bool {
        greeting(self.port).is_ok_and(|first| first == b'R')
    }
}

/// The number of its segment of System V: the second word in the seventh line of `postmaster.pid`, which a clean end
/// removes.
fn shared_memory(data: &Path) -> Option<String> {
    let text = std::fs::read_to_string(data.join("db/postmaster.pid")).ok()?;
    text.lines().nth(6)?.split_whitespace().nth(1).map(str::to_owned)
}

/// A directory of the user that the server runs as, where that is another one.
fn own_directory(directory: &Path) -> Result<(), Stop> {
    if rustix::process::getuid().is_root() {
        run(Command::new("install").args(["-d", "-m", "700", "-o", "postgres"]).arg(directory))?;
    }
    Ok(())
}

/// Drops the two databases that are templates for others, which no test makes: they have two files of three. To make a file takes
/// longer on some systems the more of them were removed in the last minutes, and the suite makes and removes a hundred servers. A
/// server that runs alone takes each line for a statement, and needs no semicolon.
fn keep_one_database(postgres: &Path, data: &Path) -> Result<(), Stop> {
    let failed = |error: std::io::Error| Stop::failed(format!("cannot drop its templates: {error}"));
    let (statements, mut say) = std::io::pipe().map_err(failed)?;
    say.write_all(include_bytes!("postgres_one.sql")).map_err(failed)?;
    drop(say);
    let mut alone = not_as_root(postgres);
    alone.args(["--single", "-F", "-D"]).arg(data).arg("postgres");
    let said = run(alone.current_dir("/").stdin(statements))?;
    // The server goes on after an error, and ends as if there were none.
    let left = std::fs::read_dir(data.join("base")).map_err(failed)?.count();
    if left == 1 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    Err(Stop::failed(format!("its templates are not dropped, {left} databases are left: {said}")))
}

/// Fills a directory with the data of the server at this port, for a standby of it.
fn follow(primary: u16, data: &Path) -> Result<(), Stop> {
    own_directory(data)?;
    let missing = || Stop::failed("pg_basebackup is not installed");
    let mut copy = not_as_root(&binary("pg_basebackup").ok_or_else(missing)?);
    copy.args(["-h", "127.0.0.1", "-p", &primary.to_string(), "-U", "postgres", "-D"]).arg(data);
    copy.args(["--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync"]);
    run(copy.current_dir("/")).map(drop)
}

/// The first byte of the answer to a start-up message.
fn greeting(port: u16) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let parameters = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(parameters.len() + 4).unwrap_or_default();
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(parameters)?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    // Without a polite end, the server's log is full of complaints.
    let _ = stream.write_all(b"X\0\0\0\x04");
    Ok(first[0])
}

/// PostgreSQL refuses to be root. The parent-death signal is asked for here as well, because a change of user clears
/// the one that was set before (`prctl(2)`).
pub(super) fn not_as_root(program: &Path) -> Command {
    if !rustix::process::getuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"]);
    command.arg(program);
    command
}

/// Debian keeps the programs of each version in a directory of their own; the newest will do.
fn binary(name: &str) -> Option<PathBuf> {
    super::on_path::on_path(name).or_else(|| {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let number =
            |path: &Path| path.file_name().and_then(OsStr::to_str).and_then(|name| name.parse().ok());
        let version = versions.map(|entry| entry.path()).max_by_key(|path| number(path).unwrap_or(0_u32))?;
        Some(version.join("bin").join(name)).filter(|file| file.is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_conformance::server::disk_missing;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    fn segments() -> Vec<String> {
        let text = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
        text.lines().filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect()
    }

    fn psql(server: &PostgresServer, statement: &str) -> Result<String, Stop> {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", server.port());
        let said =
            run(Command::new(binary("psql").unwrap()).args(["-X", "-A", "-t", "-c", statement, &url]))?;
        Ok(String::from_utf8(said.stdout).unwrap().trim().to_owned())
    }

    /// What is left of a commit when the power comes back.
    fn left_by(mut server: PostgresServer) -> Result<String, Stop> {
        psql(&server, "CREATE TABLE kept AS SELECT 42 AS number")?;
        server.lose_power()?;
        server.restart(true)?;
        psql(&server, "SELECT number FROM kept")
    }

    #[test]
    fn power_loss_discards_unsynced_writes() {
        if let Some(why) = disk_missing() {
            eprintln!("not run: {why}");
            return;
        }
        let mut careful = PostgresServer::start().unwrap();
        careful.sync_to_own_disk().unwrap();
        assert_eq!(left_by(careful).unwrap(), "42");
        let mut careless = PostgresServer::start().unwrap();
        careless.process.move_to_own_disk().unwrap();
        assert!(left_by(careless).is_err());
    }

    /// The files of shared memory that a server and its children have mapped.
    fn shared_files(server: u32) -> BTreeSet<PathBuf> {
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
        let processes = children.split_whitespace().map(str::to_owned).chain([server.to_string()]);
        let maps = processes
            .map(|process| std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default());
        let files = |maps: String| {
            maps.lines().filter_map(|line| Some(line[line.find("/dev/shm/")?..].into())).collect::<Vec<_>>()
        };
        maps.flat_map(files).collect()
    }

    #[test]
    fn killed_server_leaves_no_shared_memory_behind() {
        let server = PostgresServer::start().unwrap();
        let segment = shared_memory(server.data()).unwrap();
        assert!(segments().contains(&segment), "{segment} is not a segment");
        let shared = shared_files(server.process.id().unwrap());
        assert!(shared.is_empty(), "{shared:?}");
        drop(server);
        assert!(!segments().contains(&segment), "{segment} is kept");
    }
}
