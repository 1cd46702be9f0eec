use leasehold_conformance::Stop;
use leasehold_conformance::server::{Launch, ServerProcess, free_port};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A `redis-server` of its own, ready in about ten milliseconds.
#[derive(Debug)]
pub struct RedisServer {
    process: ServerProcess,
    port: u16,
    /// How long its append-only file was when it counted as synced.
    synced: u64,
}

/// Why no Redis can be started here, or `None` if one can.
pub fn redis_server_missing() -> Option<String> {
    find_binary().is_none().then(|| "redis-server is not installed (Debian package redis-tools)".to_owned())
}

impl RedisServer {
    /// Starts one that keeps nothing on disk.
    ///
    /// # Errors
    ///
    /// If it is not installed or does not start.
    pub fn start() -> Result<Self, Stop> {
        Self::start_with(&[])
    }

    /// Starts one with more arguments, such as `["--appendonly", "yes"]`.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(arguments: &[&str]) -> Result<Self, Stop> {
        Self::start_in(arguments, &[])
    }

    /// Starts one with more arguments, and with this environment.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_in(arguments: &[&str], environment: &[(String, String)]) -> Result<Self, Stop> {
        Self::start_on(free_port()?, arguments, environment, Vec::new())
    }

    /// Starts one on this port, with files in its data directory.
    pub(super) fn start_on(
        port: u16,
        arguments: &[&str],
        environment: &[(String, String)],
        files: Vec<(&'static str, String)>,
    ) -> Result<Self, Stop> {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let environment = environment.to_vec();
        let launch = RedisLaunch { binary: binary()?, port, arguments, files, environment };
        Ok(Self { process: ServerProcess::start(launch)?, port, synced: 0 })
    }

    /// From now on, what is in its append-only file counts as synced to the disk, and what is added does not: `appendfsync
    /// everysec`, the default, promises that for a second.
    ///
    /// # Errors
    ///
    /// If it has no such file.
    pub fn sync(&mut self) -> std::io::Result<()> {
        self.synced = self.append_only_file()?.metadata()?.len();
        Ok(())
    }

    /// Kills it as a loss of power would: what was not [synced](Self::sync) is gone. It stays down until it is started
    /// again.
    ///
    /// # Errors
    ///
    /// If it has no append-only file.
    pub fn lose_power(&mut self) -> std::io::Result<()> {
        self.kill();
        // The file may have been written anew meanwhile, and be shorter.
        let file = self.append_only_file()?;
        file.set_len(self.synced.min(file.metadata()?.len()))
    }

    fn append_only_file(&self) -> std::io::Result<File> {
        let folder = std::fs::read_dir(self.data().join("appendonlydir"))?;
        let increments = folder.flatten().map(|entry| entry.path());
        let newest = increments.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max();
        let newest = newest.ok_or_else(|| std::io::Error::other("there is no append-only file"))?;
        OpenOptions::new().write(true).open(newest)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// What the server answers to a command, in the protocol's own words: the client under test is not asked.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn command(&self, words: &[&str]) -> std::io::Result<String> {
        command(self.port, words, Duration::from_secs(5))
    }
}

process_on_port!(RedisServer);

struct RedisLaunch {
    binary: PathBuf,
    port: u16,
    arguments: Vec<String>,
    /// The files in the data directory from the start, by their names.
    files: Vec<(&'static str, String)>,
    environment: Vec<(String, String)>,
}

impl Launch for RedisLaunch {
    fn command(&self, data: &Path) -> Command {
        let mut command = server_command(&self.binary, data);
        let port = self.port.to_string();
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]);
        command.arg("--dir").arg(data).args(&self.arguments);
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }

    fn prepare(&self, data: &Path) -> Result<(), Stop> {
        for (name, text) in &self.files {
            std::fs::write(data.join(name), text)
                .map_err(|error| Stop::failed(format!("cannot write {name}: {error}")))?;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let answer = command(self.port, &["PING"], Duration::from_secs(1));
        // A server with a password, or with TLS only, refuses a ping; it is there all the same.
        answer.is_ok_and(|answer| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH"))
    }
}

/// Debian's redis-tools has the server's binary under another name; it is a server by its argv[0].
pub(super) fn server_command(binary: &Path, data: &Path) -> Command {
    let server = data.join("redis-server");
    let _ = std::os::unix::fs::symlink(binary, &server);
    Command::new(server)
}

pub(super) fn binary() -> Result<PathBuf, Stop> {
    find_binary().ok_or_else(|| Stop::missing(&redis_server_missing().unwrap_or_default()))
}

fn find_binary() -> Option<PathBuf> {
    ["redis-server", "redis-check-rdb"].into_iter().find_map(super::on_path::on_path)
}

/// What a Redis or Sentinel on this port answers to a command, in the protocol's own words.
///
/// # Errors
///
/// If it does not answer.
pub fn ask_redis(port: u16, words: &[&str]) -> std::io::Result<String> {
    command(port, words, Duration::from_secs(5))
}

/// Sends one command on a connection of its own, and answers the reply as it comes.
pub(super) fn command(port: u16, words: &[&str], timeout: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(timeout))?;
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    // A second command marks the end of the reply to the first, whatever its shape.
    request += "*2\r\n$4\r\nECHO\r\n$13\r\nend-of-answer\r\n";
    stream.write_all(request.as_bytes())?;
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer)?;
        reply.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&reply);
        if let Some(answer) = text.strip_suffix("$13\r\nend-of-answer\r\n") {
            return Ok(answer.trim_end().to_owned());
        }
        // A Sentinel answers that there is no such command, as a server does to a user without the right to it.
        if let Some((answer, _)) =
            text.split_once("-ERR unknown command 'ECHO'").filter(|_| text.ends_with("\r\n"))
        {
            return Ok(answer.trim_end().to_owned());
        }
        if length == 0 || text.contains("-NOAUTH") {
            return Ok(text.trim_end().to_owned());
        }
    }
}
