//! A place of its own for every test, and processes that end with it.

pub(crate) mod browser;
mod process;
mod running;
mod stubborn;
mod terminal;
mod traced;

pub(crate) use process::{Process, gone, until};
pub(crate) use running::Running;
pub(crate) use stubborn::{Stubborn, TTL};
pub(crate) use terminal::Shell;
pub(crate) use traced::Traced;

use leasehold_test_stores::servers::RedisServer;
use std::io::{PipeReader, PipeWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Exclusive use of the machine, for a test that loads all of it: two of them at once would time out.
pub(crate) fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pipe that takes nothing more, because nobody reads from it.
pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    let (unread, full) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while rustix::io::write(&full, &[b'x'; 512]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    (unread, full)
}

/// A home directory and a store.
pub(crate) struct Place {
    directory: TempDir,
    url: Option<String>,
}

/// What a finished process has said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    /// A place with the default store: nothing is configured.
    pub(crate) fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap(), url: None };
        std::fs::create_dir(place.path().join("state")).unwrap();
        place
    }

    /// A place whose `LEASEHOLD_URL` is this.
    pub(crate) fn with_store(url: impl Into<String>) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), url: Some(url.into()) }
    }

    /// The URL of its store.
    pub(crate) fn url(&self) -> &str {
        self.url.as_deref().unwrap()
    }

    /// A place with a Redis of its own.
    pub(crate) fn with_redis() -> (Self, RedisServer) {
        let server = RedisServer::start().unwrap();
        (Self::with_store(server.url()), server)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// The file of the default store.
    pub(crate) fn default_store(&self) -> PathBuf {
        self.path().join("state/leasehold/locks.db")
    }

    /// `leasehold` with these words, in this place, with nothing of the caller's environment.
    pub(crate) fn command<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command.args(words);
        self.settle(&mut command);
        command
    }

    /// Puts any command into this place.
    pub(crate) fn settle(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("USER", "ada")
            .env("LC_ALL", "C.UTF-8")
            .current_dir(self.path())
            .stdin(Stdio::null());
        if let Some(url) = &self.url {
            command.env("LEASEHOLD_URL", url);
        }
    }

    /// Runs it to its end.
    pub(crate) fn say<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> CommandOutput {
        Running::start(self.command(words)).wait()
    }

    /// Runs a script by bash, to whom `leasehold` is `$0`.
    pub(crate) fn shell(&self, script: &str) -> CommandOutput {
        let mut shell = Command::new("bash");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_leasehold")]);
        self.settle(&mut shell);
        Running::start(shell).wait()
    }

    /// Starts it.
    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Running {
        Running::start(self.command(words))
    }

    /// Starts it in a session of its own: without the terminal of whoever runs the tests, where a signal looks like Ctrl-C.
    pub(crate) fn start_apart<S: AsRef<std::ffi::OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
    ) -> Running {
        let mut command = Command::new("setsid");
        command.arg(env!("CARGO_BIN_EXE_leasehold")).args(words);
        self.settle(&mut command);
        Running::start(command)
    }

    /// Holds a lock, in a process of its own, for as long as the value lives.
    pub(crate) fn hold(&self, name: &str) -> Running {
        let mut command = self.command(["hold", name]);
        command.stdin(Stdio::piped());
        let mut holder = Running::start(command);
        holder.line("{\"name\"");
        holder
    }

    /// True if somebody holds this lock.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        match self.say(["try", name]).code {
            Some(0) => false,
            Some(75) => true,
            other => panic!("try: {other:?}"),
        }
    }
}

impl CommandOutput {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails unless it ended with this code and said nothing wrong.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, out: &str, err: &str) {
        assert_eq!((self.code, self.out.as_str(), self.err.as_str()), (Some(code), out, err));
    }

    #[track_caller]
    pub(crate) fn code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}
