use super::postgres::not_as_root;
use leasehold_conformance::Stop;
use leasehold_conformance::server::{Launch, ServerProcess, free_port};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A `pgbouncer` of its own in front of a [`PostgresServer`](super::PostgresServer), with its default settings, but for two: it
/// asks for no password, and knows no prepared statements, whatever its version.
#[derive(Debug)]
pub struct PgBouncer {
    _process: ServerProcess,
    port: u16,
}

/// Why no `pgbouncer` can be started here, or `None` if one can.
pub fn pgbouncer_missing() -> Option<String> {
    binary().is_none().then(|| "pgbouncer is not installed (Debian package pgbouncer)".to_owned())
}

impl PgBouncer {
    /// Starts one in front of the server on this port, which lends sessions by this `pool_mode`: `session`,
    /// `transaction` or `statement`.
    ///
    /// # Errors
    ///
    /// If it is not installed or does not start.
    pub fn start(server: u16, pool_mode: &'static str) -> Result<Self, Stop> {
        let binary = binary().ok_or_else(|| Stop::missing(&pgbouncer_missing().unwrap_or_default()))?;
        let port = free_port()?;
        let launch = PgBouncerLaunch { binary, port, server, pool_mode };
        Ok(Self { _process: ServerProcess::start(launch)?, port })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

struct PgBouncerLaunch {
    binary: PathBuf,
    port: u16,
    server: u16,
    pool_mode: &'static str,
}

impl Launch for PgBouncerLaunch {
    fn prepare(&self, data: &Path) -> Result<(), Stop> {
        let failed = |error: std::io::Error| Stop::failed(format!("no configuration: {error}"));
        // Like the server, it runs as another user, who must be able to read this.
        std::fs::set_permissions(data, std::fs::Permissions::from_mode(0o711)).map_err(failed)?;
        let (server, port, mode) = (self.server, self.port, self.pool_mode);
        let configuration = format!(
            "[databases]\n* = host=127.0.0.1 port={server}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n\
             auth_file = {users}\npool_mode = {mode}\n{statements}",
            users = data.join("users").display(),
            statements = self.without_prepared_statements().map_err(failed)?,
        );
        std::fs::write(data.join("users"), "\"locker\" \"sesame\"\n\"postgres\" \"\"\n").map_err(failed)?;
        std::fs::write(data.join("pgbouncer.ini"), configuration).map_err(failed)
    }

    fn command(&self, data: &Path) -> Command {
        let mut command = not_as_root(&self.binary);
        command.arg("-q").arg(data.join("pgbouncer.ini")).current_dir("/");
        command
    }

    fn is_ready(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }
}

impl PgBouncerLaunch {
    /// From 1.21 on it knows prepared statements, if it is not told to do without. Before, it does not know the setting.
    fn without_prepared_statements(&self) -> std::io::Result<&'static str> {
        let output = Command::new(&self.binary).arg("--version").output()?;
        let version = String::from_utf8_lossy(&output.stdout);
        Ok(if is_at_least_1_21(&version) { "max_prepared_statements = 0\n" } else { "" })
    }
}

/// Reads the output of `pgbouncer --version`: `PgBouncer 1.18.0`, and more lines.
fn is_at_least_1_21(version: &str) -> bool {
    let numbers = version.split_whitespace().nth(1).unwrap_or_default().split('.');
    numbers.map_while(|number| number.parse::<u32>().ok()).take(2).ge([1, 21])
}

fn binary() -> Option<PathBuf> {
    super::on_path::on_path("pgbouncer")
        .or_else(|| Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|file| file.is_file()))
}

#[cfg(test)]
mod tests {
    use super::is_at_least_1_21;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, expected) in
            [("1.9.0", false), ("1.18.0", false), ("1.21.0", true), ("1.24.1", true), ("2.0", true)]
        {
            assert_eq!(
                is_at_least_1_21(&format!("PgBouncer {version}\nlibevent 2.1.12-stable\n")),
                expected,
                "{version}"
            );
        }
    }
}
