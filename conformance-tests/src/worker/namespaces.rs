//! Workers in namespaces of their own, by `unshare` (util-linux): each is process 1, and may have another boot clock.

use super::Worker;
use super::request::Request;
use crate::stop::{Stop, ensure};
use std::process::Command;
use std::time::Duration;

impl Worker {
    /// A worker that is process 1 of a new pid namespace, and whose boot clock is so much ahead of the host's.
    pub(crate) async fn start_as_process_one(
        subject: &str,
        address: &str,
        boot_clock_ahead: Duration,
    ) -> Result<Self, Stop> {
        let mut command = unshare(boot_clock_ahead)?;
        command.arg(std::env::current_exe()?);
        let mut worker = Self::start_by(command, subject, address, &[]).await?;
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
        identity.ok_or_else(|| Stop::Failed(format!("a worker said {answer:?} instead of its identity")))
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
