//! The watchdog, as seen from `leasehold`.

use crate::watchdog::process_tree::{ProcessTree, adopt_orphans, adopts_orphans, children, reap};
use crate::watchdog::protocol::{CommandReport, Order, Start, to_line};
use crate::watchdog::{NAME, Program};
use leasehold_console::Failure;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{SendFlags, send};
use rustix::process::{Pid, Signal};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::timeout;

/// Interval between two checks whether the killed processes are gone.
const KILL_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// A watchdog that runs, and the command under it once that is started. Dropped while the command may run, it leaves the watchdog, which
/// stops the command when the socket ends.
#[derive(Debug)]
pub(super) struct Supervisor {
    process: Child,
    reports: Reports<OwnedReadHalf>,
    orders: OwnedWriteHalf,
    /// Children of this process that are not of the command: from before it was `leasehold`, and their orphans.
    strangers: Vec<Pid>,
    /// Known once that is reported.
    command: Option<Pid>,
    /// SIGCHLD: a process that ends may leave us orphans.
    deaths: unix::Signal,
    /// True from the order to start the command until that is over, or killed without the watchdog.
    is_needed: bool,
}

impl Supervisor {
    /// Starts a watchdog that waits for the order to start the command.
    pub(super) fn prepare(program: &Program) -> io::Result<Self> {
        let strangers = children().unwrap_or_default();
        let deaths = unix::signal(SignalKind::child())?;
        adopt_orphans(true)?;
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        // Open across exec for the one process that is started next; nobody else starts any here.
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let mut watchdog = Command::new(this_program()?);
        watchdog
            .arg0(NAME)
            .arg(theirs.as_raw_fd().to_string())
            // Ctrl-C, Ctrl-Z and a signal to our group are not for it.
            .process_group(0);
        let process = watchdog.spawn()?;
        drop(theirs);
        ours.write_all(&to_line(&Order::Prepare(program.clone())))?;
        ours.set_nonblocking(true)?;
        let (reports, orders) = UnixStream::from_std(ours)?.into_split();
        let reports = Reports::read_from(reports);
        Ok(Self { process, reports, orders, strangers, command: None, deaths, is_needed: false })
    }

    /// Orders the command to be started. From now on there may be something of it.
    pub(super) fn start(&mut self, start: Start) {
        self.look_for_strangers();
        self.is_needed = true;
        self.order(&Order::Start(start));
    }

    /// True once the watchdog is gone.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    /// Sends an order without waiting. An order that the watchdog cannot take is lost: the watchdog is gone, which the next
    /// [`report`](Self::report) says, or it is suspended, and the command is killed without it before the lease ends.
    pub(super) fn order(&self, order: &Order) {
        let socket: &UnixStream = self.orders.as_ref();
        let _ = send(socket, &to_line(order), SendFlags::DONTWAIT);
    }

    /// The next report; `None` if the watchdog is gone, or says what is no report.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop: what was read of a report is kept.
    pub(super) async fn report(&mut self) -> Option<CommandReport> {
        let report = loop {
            tokio::select! {
                biased;
                _ = self.deaths.recv() => self.look_for_strangers(),
                report = self.reports.next() => break report,
            }
        };
        self.heed(report)
    }

    /// The same, for one that is to come within `limit`, and is looked for within another `look`; `None` also if there is none.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop: what was read of a report is kept.
    pub(super) async fn report_within(&mut self, limit: Duration, look: Duration) -> Option<CommandReport> {
        let report = self.reports.next_within(limit, look).await;
        self.heed(report)
    }

    fn heed(&mut self, report: Option<CommandReport>) -> Option<CommandReport> {
        match report {
            Some(CommandReport::Started { pid }) => self.command = Pid::from_raw(pid),
            // There is nothing of the command.
            Some(CommandReport::NotStarted { .. } | CommandReport::TooLate) => self.strangers = self.others(),
            _ => {}
        }
        report
    }

    /// Call before children are trusted to be strangers: once the watchdog exits, the orphans of the command come here too. So it is asked
    /// about after the children were looked for, and long before it is a zombie.
    fn look_for_strangers(&mut self) {
        let others = self.others();
        if adopts_orphans(Pid::from_child(&self.process)) {
            self.strangers = others;
        }
    }

    /// The children of this process but for the watchdog.
    fn others(&self) -> Vec<Pid> {
        let Some(mut others) = children() else { return self.strangers.clone() };
        others.retain(|child| *child != Pid::from_child(&self.process));
        others
    }

    fn process_tree(&self) -> ProcessTree {
        let strangers = self.strangers.clone();
        match self.command {
            Some(command) => ProcessTree::of(command, strangers),
            None => ProcessTree::unnamed(strangers),
        }
    }

    /// Kills the command without the watchdog, and it too if it is still there. Answers when nothing of them lives or, where that cannot be
    /// told, after one KILL; or when `patience` is over.
    ///
    /// Only this process can have reaped the command: it is a child of the watchdog, which does not, or of ours. It may run also
    /// if that was not reported: a watchdog that is killed right after the start sends no report.
    ///
    /// # Errors
    ///
    /// The processes that still live, as far as that can be told; the list may be empty.
    pub(super) async fn kill(&mut self, patience: Duration) -> Result<(), Vec<i32>> {
        self.look_for_strangers();
        self.is_needed = false;
        let _ = self.process.kill();
        let tree = self.process_tree();
        let kill = async {
            loop {
                tree.signal_all(&[Signal::KILL]);
                if tree.lives() != Some(true) {
                    return true;
                }
                tokio::time::sleep(KILL_CHECK_INTERVAL).await;
            }
        };
        if timeout(patience, kill).await.is_err() {
            return Err(tree.alive());
        }
        // Their numbers are not signalled any more, and a group of zombies would still have the terminal.
        let watchdog = Pid::from_child(&self.process);
        reap(&[&self.strangers[..], &[watchdog]].concat());
        Ok(())
    }

    /// Lets go of the watchdog, after its last report: it has nothing left to do.
    pub(super) fn dismiss(mut self) {
        self.is_needed = false;
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if self.is_needed {
            return;
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Its children are ours now, the command among them, and nobody else may be there who reaps.
        reap(&self.strangers);
    }
}

/// What the watchdog says.
#[derive(Debug)]
struct Reports<R>(Lines<BufReader<R>>);

impl<R: AsyncRead + Unpin> Reports<R> {
    fn read_from(socket: R) -> Self {
        Self(BufReader::new(socket).lines())
    }

    async fn next(&mut self) -> Option<CommandReport> {
        let line = self.0.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }

    /// This process may have been stopped itself for longer than that: then there may be a report that came in time, and that
    /// nobody has looked at.
    async fn next_within(&mut self, limit: Duration, look: Duration) -> Option<CommandReport> {
        match timeout(limit, self.next()).await {
            Ok(report) => report,
            Err(_) => timeout(look, self.next()).await.ok().flatten(),
        }
    }
}

/// This very program, also if its file was replaced meanwhile: `leasehold` may wait for days, and an upgrade would come
/// between.
fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe()
}

/// Why there is no watchdog, and what may help.
pub(super) fn not_prepared(error: io::Error) -> Failure {
    let failure = Failure::internal("cannot start the watchdog", error);
    if !cfg!(target_os = "linux") || Path::new("/proc/self/exe").exists() {
        return failure;
    }
    let help = "mount a /proc: this program is found there, and what the command starts";
    failure.with_lines([("help", help.to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    const LIMIT: Duration = Duration::from_secs(3);
    const A_LOOK: Duration = Duration::from_millis(20);

    /// What this process would make of a report if it looked at the clock first, and saw the report this much later.
    async fn seen_after_the_limit(late: Duration) -> Option<CommandReport> {
        let (ours, mut theirs) = duplex(64);
        let mut reports = Reports::read_from(ours);
        let report = async {
            tokio::time::sleep(LIMIT + late).await;
            let _ = theirs.write_all(&to_line(&CommandReport::TooLate)).await;
        };
        tokio::join!(reports.next_within(LIMIT, A_LOOK), report).0
    }

    /// After a stop of this process that outlasts the limit, the runtime may look at the clock before it looks at the socket.
    #[tokio::test(start_paused = true)]
    async fn report_in_time_counts_when_read_after_the_limit() {
        let report = seen_after_the_limit(A_LOOK / 2).await;
        assert!(matches!(report, Some(CommandReport::TooLate)), "{report:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn missing_report_is_not_awaited_beyond_the_second_look() {
        let report = seen_after_the_limit(A_LOOK * 2).await;
        assert!(report.is_none(), "{report:?}");
    }
}
