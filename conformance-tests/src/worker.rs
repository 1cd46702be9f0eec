//! Worker processes: this very program, executed again, taking locks on command. For what only another process can
//! show: crashes, pauses, clocks of its own.

mod request;
mod served;

pub(crate) use request::Request;
pub(crate) use served::occupy;
pub use served::{serve_as_worker, worker_order};

use crate::clock::{clock_of, ensure_runs_by};
use crate::server::{killed_with_this_process, spawn_lasting, until_still};
use crate::stop::{Stop, Verdict, ensure};
use crate::time_scale::scaled;
use leasehold_core::{LockMode, LockName};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

/// Tells a process that it is a worker, of which subject, and where the store is.
const ENVIRONMENT: &str = "LEASEHOLD_CONFORMANCE_WORKER";

/// How long a worker may take for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The variables that a worker has beside those of this process.
pub(crate) type Environment = Vec<(String, String)>;

/// A worker process, seen from the case that drives it. Killed when dropped.
pub(crate) struct Worker {
    child: std::process::Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// How long it may take for an answer.
    pub(crate) patience: Duration,
    /// What it [takes](Self::take) a lock for.
    pub(crate) mode: LockMode,
}

impl Worker {
    pub(crate) async fn start(subject: &str, address: &str, environment: &Environment) -> Result<Self, Stop> {
        // Also if its file was replaced meanwhile. For `setpriv`, /proc/self would be itself.
        let this_program = std::fs::canonicalize("/proc/self")?.join("exe");
        Self::start_by(Command::new(this_program), subject, address, environment).await
    }

    /// A worker that is process 1 of a new pid namespace, and whose boot clock is so much ahead of the host's.
    pub(crate) async fn start_as_process_one(
        subject: &str,
        address: &str,
        boot_clock_ahead: Duration,
    ) -> Result<Self, Stop> {
        let mut command = unshare(boot_clock_ahead)?;
        command.arg(std::env::current_exe()?);
        let mut worker = Self::start_by(command, subject, address, &Vec::new()).await?;
        let (pid, boot_clock) = worker.identity().await?;
        let host = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec;
        let is_ahead = (boot_clock - host).unsigned_abs().abs_diff(boot_clock_ahead.as_secs()) < 60;
        ensure!(pid == 1 && is_ahead, "`unshare` made process {pid}, whose boot clock shows {boot_clock} s");
        Ok(worker)
    }

    async fn identity(&mut self) -> Result<(u32, i64), Stop> {
        let answer = self.ask(&Request::Identity).await?;
        let words = answer.split_once(' ');
        let identity = words.and_then(|(pid, boot)| Some((pid.parse().ok()?, boot.parse().ok()?)));
        identity.ok_or_else(|| unexpected(&answer, "its identity"))
    }

    /// A worker that this command executes: this very program, directly or by another.
    async fn start_by(
        mut command: Command,
        subject: &str,
        address: &str,
        environment: &Environment,
    ) -> Result<Self, Stop> {
        command.env(ENVIRONMENT, format!("{subject}\n{address}"));
        command.envs(environment.iter().map(|(key, value)| (key, value)));
        let (clock, mut command) = (clock_of(&command), killed_with_this_process(&command));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = spawn_lasting(command)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (requests, answers) = pipes.ok_or_else(|| Stop::Failed("a worker without pipes".to_owned()))?;
        let mut worker = Self {
            child,
            requests: ChildStdin::from_std(requests)?,
            answers: BufReader::new(ChildStdout::from_std(answers)?).lines(),
            patience: scaled(ANSWER_WITHIN),
            mode: LockMode::Exclusive,
        };
        worker.expect("ready").await?;
        ensure_runs_by(clock, worker.process()).map_err(Stop::Failed)?;
        Ok(worker)
    }

    /// Acquires, and answers the token.
    pub(crate) async fn take(&mut self, name: &LockName, ttl: Duration) -> Result<u64, Stop> {
        self.begin_take(name, ttl).await?;
        token(&self.answer().await?)
    }

    /// One attempt, exclusive: true if it was granted.
    pub(crate) async fn try_take(&mut self, name: &LockName, ttl: Duration) -> Result<bool, Stop> {
        let answer = self.ask(&Request::Acquire(name.clone(), ttl, LockMode::Exclusive, false)).await?;
        if answer == "busy" { Ok(false) } else { token(&answer).map(|_| true) }
    }

    /// Begins to acquire, and does not wait for the end of it.
    pub(crate) async fn begin_take(&mut self, name: &LockName, ttl: Duration) -> Verdict {
        self.send(&Request::Acquire(name.clone(), ttl, self.mode, true)).await
    }

    /// Waits for the grant of what it has begun to acquire, and answers the token.
    pub(crate) async fn granted(&mut self) -> Result<u64, Stop> {
        token(&self.answer().await?)
    }

    /// What it says within this time, if anything: of what was begun.
    pub(crate) async fn answers_within(&mut self, time: Duration) -> Result<Option<String>, Stop> {
        match tokio::time::timeout(time, self.answers.next_line()).await {
            Ok(Ok(Some(line))) => match line.strip_prefix("error ") {
                Some(said) => Err(stop_of(said)),
                None => Ok(Some(line)),
            },
            Ok(Ok(None)) => Err(Stop::Failed("a worker ended".to_owned())),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    /// `held`, `lost Cause`, or `none`: the worker's belief, worked out when it is asked.
    pub(crate) async fn status(&mut self) -> Result<String, Stop> {
        self.ask(&Request::Status).await
    }

    /// Expects that it holds. A lease that has ended before it was renewed says that the store was slow, or this machine.
    pub(crate) async fn ensure_not_lost(&mut self, words: &str) -> Verdict {
        match &*self.status().await? {
            "held" => Ok(()),
            lost @ ("lost Expired" | "lost Unreachable") => Err(Stop::Away(format!("{words}: {lost}"))),
            status => Err(Stop::Failed(format!("{words}: {status}"))),
        }
    }

    /// Gives back what it holds.
    pub(crate) async fn release(&mut self) -> Verdict {
        self.send(&Request::Release).await?;
        self.expect("released").await
    }

    /// Asks something of it, and waits until it is done.
    pub(crate) async fn order(&mut self, request: Request) -> Verdict {
        self.send(&request).await?;
        self.done().await
    }

    /// Waits until the first of its clients at work has had the lock; its token.
    pub(crate) async fn held(&mut self) -> Result<u64, Stop> {
        token(&self.ask(&Request::Held).await?)
    }

    /// Waits until it has done what was begun.
    pub(crate) async fn done(&mut self) -> Verdict {
        self.expect("done").await
    }

    /// Its number in the operating system.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// True unless it was killed, or has ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// True if it was killed; one that has ended by itself was not.
    pub(crate) fn was_killed(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(status)) if status.signal() == Some(Signal::KILL.as_raw()))
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        // After it was waited for, its number may belong to another process.
        if !self.is_alive() {
            return;
        }
        self.signal(Signal::CONT);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it: nothing in it runs.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        until_still(&self.child);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    async fn ask(&mut self, request: &Request) -> Result<String, Stop> {
        self.send(request).await?;
        self.answer().await
    }

    /// Asks it to begin something, and does not wait for the end of that.
    pub(crate) async fn send(&mut self, request: &Request) -> Verdict {
        let line = serde_json::to_string(request).map_err(std::io::Error::from)? + "\n";
        self.requests.write_all(line.as_bytes()).await?;
        Ok(self.requests.flush().await?)
    }

    async fn answer(&mut self) -> Result<String, Stop> {
        let within = self.patience;
        let answer = self.answers_within(within).await?;
        answer.ok_or_else(|| Stop::Late(format!("a worker said nothing within {within:?}"), None))
    }

    async fn expect(&mut self, expected: &str) -> Verdict {
        let answer = self.answer().await?;
        if answer == expected { Ok(()) } else { Err(unexpected(&answer, expected)) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn token(answer: &str) -> Result<u64, Stop> {
    let token = answer.strip_prefix("token ").and_then(|token| token.parse().ok());
    token.ok_or_else(|| unexpected(answer, "a token"))
}

/// An answer that is not what was asked for.
fn unexpected(answer: &str, expected: &str) -> Stop {
    Stop::Failed(format!("a worker said {answer:?} instead of {expected}"))
}

/// The reason that stopped a worker, of the kind that it would be in this process.
fn stop_of(said: &str) -> Stop {
    let words = format!("a worker: {said}");
    match said.split_once('(') {
        Some(("Wrong", _)) => Stop::Wrong(words),
        Some(("Away", _)) => Stop::Away(words),
        Some(("Late", _)) => Stop::Late(words, None),
        _ => Stop::Failed(words),
    }
}

/// `unshare` in the way that is permitted here: as root, or as an ordinary user in a user namespace.
fn unshare(boot_clock_ahead: Duration) -> Result<Command, Stop> {
    let mut refusal = String::new();
    for user in [&[][..], &["--map-root-user"]] {
        let command = || {
            let mut command = Command::new("unshare");
            command.args(user).args(["--pid", "--fork", "--kill-child", "--time"]);
            command.arg(format!("--boottime={}", boot_clock_ahead.as_secs()));
            command
        };
        let tried = command().arg("true").output();
        let tried = tried.map_err(|_| Stop::missing("there is no `unshare` (Debian package util-linux)"))?;
        if tried.status.success() {
            return Ok(command());
        }
        refusal = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
    }
    Err(Stop::Skipped(format!("pid and time namespaces are not permitted here: {refusal}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::{Error, Loss, LossCause};

    #[test]
    fn error_of_a_worker_is_judged_as_one_of_this_process() {
        let of = |stop: Stop| stop_of(&format!("{stop:?}"));
        assert!(matches!(of(Stop::Late("no grant".to_owned(), None)), Stop::Late(_, None)));
        let expired = Error::from(Loss::new(LossCause::Expired));
        assert!(matches!(of(expired.into()), Stop::Away(_)));
        assert!(matches!(of(Stop::Wrong("token 1 after 2".to_owned())), Stop::Wrong(_)));
        assert!(matches!(of(Stop::Failed("two holders".to_owned())), Stop::Failed(_)));
    }
}
