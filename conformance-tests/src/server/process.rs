use super::disk::Disk;
use super::launch::{killed_with_this_process, spawn_lasting, tail};
use super::processes::{children, end_of, holds_within, is_running, limit_as_its_user, signal, until_still};
use super::{Launch, run};
use crate::clock::{clock_of, ensure_runs_by};
use crate::stop::Stop;
use crate::time_scale::scaled;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Limit for a server to start or to end. It takes milliseconds, and a minute under a load of 20.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A server that runs for as long as this value lives, in a process group of its own.
pub struct ServerProcess {
    launch: Box<dyn Launch>,
    /// The one of its own that its data is on, if it may lose its power. Before the directory that it is mounted over.
    disk: Option<Disk>,
    data: TempDir,
    child: Option<Child>,
}

impl ServerProcess {
    /// Starts it in a fresh data directory and waits until it answers.
    ///
    /// # Errors
    ///
    /// If it cannot be executed, ends, or does not answer in time; with the last lines of its log.
    pub fn start(launch: impl Launch) -> Result<Self, Stop> {
        let data = tempfile::tempdir()?;
        launch.prepare(data.path())?;
        let mut server = Self { launch: Box::new(launch), disk: None, data, child: None };
        server.spawn()?;
        Ok(server)
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Kills it and its children at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Or it may have another child after the look, which has its listening socket for a moment: the port is taken then.
            signal(&child, Signal::STOP);
            until_still(&child);
            let children = children(&child);
            signal(&child, Signal::KILL);
            let _ = child.wait();
            // A server that finds its predecessor's children still there refuses to start.
            holds_within(READY_WITHIN, || !children.iter().any(|pid| is_running(*pid)));
        }
    }

    /// Its process number, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Asks it to end by SIGTERM, and waits until it has.
    ///
    /// # Errors
    ///
    /// If it goes on.
    pub fn end(self) -> Result<(), Stop> {
        self.signal(Signal::TERM);
        match holds_within(READY_WITHIN, || self.child.as_ref().is_none_or(|child| end_of(child).is_some())) {
            true => Ok(()),
            false => Err(Stop::failed(format!("the server does not end: {}", self.log_tail()))),
        }
    }

    /// True if it was killed, and not started since.
    pub fn is_killed(&self) -> bool {
        self.child.is_none()
    }

    /// Stops it without its noticing: connections stay open and silent.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        self.child.iter().for_each(until_still);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Leaves no room for anything that it wants to write to a file, as a full disk does. Some servers die of it; a restart
    /// makes room again.
    ///
    /// # Errors
    ///
    /// If the kernel does not let this process limit the server.
    pub fn fill_disk(&self) -> Result<(), Stop> {
        let of = |parent: &Child| [Pid::from_child(parent)].into_iter().chain(children(parent));
        for pid in self.child.iter().flat_map(of) {
            let nothing = Rlimit { current: Some(0), maximum: None };
            match prlimit(Some(pid), Resource::Fsize, nothing) {
                // A child may have ended meanwhile.
                Ok(_) | Err(Errno::SRCH) => {}
                Err(Errno::PERM) => limit_as_its_user(pid)?,
                Err(error) => return Err(Stop::failed(format!("cannot limit process {pid:?}: {error}"))),
            }
        }
        Ok(())
    }

    /// Starts it again, with the data it has written or with none.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn restart(&mut self, keep_data: bool) -> Result<(), Stop> {
        self.kill();
        if !keep_data {
            run(Command::new("find").arg(self.data.path()).args(["-mindepth", "1", "-delete"]))?;
            self.launch.prepare(self.data.path())?;
        }
        self.spawn()
    }

    /// Starts it again with its data on a disk of its own, to which it syncs what it acknowledges, and that can lose
    /// its power.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and if nothing can be mounted here (see [`disk_missing`](super::disk_missing)).
    pub fn sync_to_own_disk(&mut self) -> Result<(), Stop> {
        self.launch.sync_each_write();
        self.move_to_own_disk()
    }

    /// Starts it again with its data on a disk of its own, for a server that syncs each write by itself.
    ///
    /// # Errors
    ///
    /// As [`sync_to_own_disk`](Self::sync_to_own_disk).
    pub fn move_to_own_disk(&mut self) -> Result<(), Stop> {
        self.kill();
        self.disk = Some(Disk::under(self.data.path())?);
        self.spawn()
    }

    /// Kills it as a loss of power would: what it has not synced to its [disk](Self::sync_to_own_disk) is gone. It
    /// stays down until it is started again.
    ///
    /// # Errors
    ///
    /// If it has no such disk.
    pub fn lose_power(&mut self) -> Result<(), Stop> {
        let disk = self.disk.as_ref().ok_or_else(|| Stop::failed("it has no disk of its own"))?;
        // First: what it syncs from now on is late.
        disk.lose_power()?;
        self.kill();
        self.disk.as_ref().map_or(Ok(()), Disk::start_again)
    }

    fn spawn(&mut self) -> Result<(), Stop> {
        let log = std::fs::File::create(self.log_path())?;
        let command = self.launch.command(self.data.path());
        let (clock, mut command) = (clock_of(&command), killed_with_this_process(&command));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let child = self.child.insert(spawn_lasting(command)?);
        let pid = child.id();
        self.wait_until_ready()?;
        ensure_runs_by(clock, pid).map_err(Stop::skipped)
    }

    fn wait_until_ready(&self) -> Result<(), Stop> {
        let (limit, child) = (scaled(READY_WITHIN), self.child.as_ref());
        let mut ended = None;
        let is_done = holds_within(limit, || {
            ended = child.and_then(end_of);
            ended.is_some() || self.launch.is_ready()
        });
        match ended {
            Some(status) => Err(Stop::failed(format!("the server ended with {status}: {}", self.log_tail()))),
            None if is_done => Ok(()),
            None => {
                let log = self.log_tail();
                Err(Stop::NotJudged(format!("the server was not ready after {} s: {log}", limit.as_secs())))
            }
        }
    }

    fn signal(&self, which: Signal) {
        if let Some(child) = &self.child {
            signal(child, which);
        }
    }

    fn log_path(&self) -> PathBuf {
        self.data.path().join("server.log")
    }

    fn log_tail(&self) -> String {
        tail(&std::fs::read_to_string(self.log_path()).unwrap_or_default())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
        self.launch.bury(self.data.path());
    }
}

impl std::fmt::Debug for ServerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerProcess").field("data", &self.data.path()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends at once, and leaves one of its group behind.
    struct Leaving;

    impl Launch for Leaving {
        fn command(&self, _: &Path) -> Command {
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 600 & echo $!; exit 3"]);
            command
        }

        fn is_ready(&self) -> bool {
            false
        }
    }

    #[test]
    fn child_left_by_a_server_that_exited_is_killed() {
        let message = ServerProcess::start(Leaving).unwrap_err().to_string();
        let (words, left) = message.rsplit_once(": ").unwrap();
        assert_eq!(words, "the server ended with exit status: 3");
        let left = Pid::from_raw(left.parse().unwrap()).unwrap();
        assert!(holds_within(READY_WITHIN, || !is_running(left)), "{left:?} runs");
    }
}
