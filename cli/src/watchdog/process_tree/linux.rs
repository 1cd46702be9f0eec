use crate::watchdog::child_status::exit_of;
use leasehold::client::Moment;
use nix::sys::signal::{SigEvent, SigevNotify, Signal as Sent};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use rustix::io;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open, pidfd_send_signal,
    set_child_subreaper, set_parent_process_death_signal,
};
use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Makes this process the parent of every descendant whose own parent dies, so that none gets out of sight
/// (`PR_SET_CHILD_SUBREAPER`); or no more.
pub(crate) fn adopt_orphans(adopts: bool) -> io::Result<()> {
    set_child_subreaper(adopts.then(getpid))
}

/// Has the kernel kill this process when `parent` dies, if that has not happened yet. For the time between fork and
/// exec: system calls only.
pub(crate) fn die_with_parent(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() == Some(parent) { Ok(()) } else { Err(io::Errno::SRCH) }
}

/// Has the kernel kill this process at that moment, unless the answer is dropped before. For a time in which it cannot look at a
/// clock itself.
pub(crate) fn die_at(moment: Moment) -> Option<impl Sized> {
    let kill = SigevNotify::SigevSignal { signal: Sent::SIGKILL, si_value: 0 };
    let mut timer = Timer::new(ClockId::CLOCK_BOOTTIME, SigEvent::new(kill)).ok()?;
    let moment = TimeSpec::from_duration(moment.since(Moment::ORIGIN));
    timer.set(Expiration::OneShot(moment), TimerSetTimeFlags::TFD_TIMER_ABSTIME).ok()?;
    Some(timer)
}

/// True if nobody can be found here who has left the command's group: there is no `/proc`, or one of another process
/// namespace.
pub(crate) fn is_blind() -> bool {
    check_proc().is_none()
}

/// True if who descends from whom can be told here, at a moment in which nothing is wanting for it.
pub(crate) fn tells_descent() -> bool {
    !is_blind()
}

/// The children of this process, zombies too. `None` if the kernel does not tell (`CONFIG_PROC_CHILDREN`).
pub(crate) fn children() -> Option<Vec<Pid>> {
    /// As often as a process can hardly end a thread within each reading of a few files.
    const READINGS: usize = 1_000;

    check_proc()?;
    fs::exists("/proc/thread-self/children").ok()?.then_some(())?;
    for _ in 0..READINGS {
        // Without descriptors, say, one more reading would not help.
        if let Some(children) = children_of(&threads()?) {
            return Some(children);
        }
    }
    None
}

/// The kernel keeps children by the thread that forked, and gives those of a thread that ends to another one, whose list
/// may have been read already. So `None` if a thread has ended meanwhile.
fn children_of(threads: &[PathBuf]) -> Option<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in threads {
        let list = fs::read_to_string(thread.join("children")).ok()?;
        children.extend(list.split_ascii_whitespace().filter_map(parse_pid));
    }
    threads.iter().all(|thread| thread.exists()).then_some(children)
}

fn threads() -> Option<Vec<PathBuf>> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    threads.map(|thread| Some(thread.ok()?.path())).collect()
}

/// A `/proc` of another process namespace has numbers that mean others here.
fn check_proc() -> Option<()> {
    let this = fs::read_link("/proc/self").ok()?;
    (parse_pid(this.to_str()?)? == getpid()).then_some(())
}

/// One process, as `/proc/PID/stat` tells it (`proc_pid_stat(5)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) group: Pid,
    parent: Option<Pid>,
    dead: bool,
    /// True once it has begun to end.
    pub(super) exiting: bool,
    /// In clock ticks since boot. With the number, it names one process and no later one.
    started: u64,
}

/// What the kernel goes by when it looks for somebody to whom orphans can go (`include/linux/sched.h`).
const PF_EXITING: u32 = 4;

/// True if whoever signals the control group of this process signals that one too. A command may move itself, as `systemd-run --scope` does.
pub(crate) fn shares_control_group(process: Pid) -> bool {
    let group = |process: &str| fs::read_to_string(format!("/proc/{process}/cgroup")).ok();
    let ours = group("self");
    ours.is_some() && ours == group(&process.to_string())
}

/// True if orphans of this process's descendants still go to it.
pub(crate) fn adopts_orphans(process: Pid) -> bool {
    Process::read(process).is_some_and(|process| !process.dead && !process.exiting)
}

/// Whether any descendant of this process lives, `strangers` and theirs apart. `None` if the kernel does not tell.
///
/// Exact, although processes come and go: as all orphans come to us, whoever lives has an ancestor that lives and is our
/// child.
pub(super) fn any_descendant_lives(strangers: &[Pid]) -> Option<bool> {
    let mut all = children()?;
    loop {
        let mut ours = all.iter().filter(|child| !strangers.contains(child));
        if ours.any(|child| exit_of(*child).is_none()) {
            return Some(true);
        }
        // A child that died since the list was read may have left us its children.
        let again = children()?;
        if again == all {
            return Some(false);
        }
        all = again;
    }
}

/// The living descendants of this process, `strangers` and theirs apart. `None` without a `/proc`. A table that is read
/// while processes come and go may miss one.
pub(super) fn descendants(strangers: &[Pid]) -> Option<Vec<Process>> {
    check_proc()?;
    let this = getpid();
    let all: HashMap<Pid, Process> = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| parse_pid(entry.ok()?.file_name().to_str()?))
        .filter_map(|pid| Some((pid, Process::read(pid)?)))
        .collect();
    let ours = |process: &&Process| {
        let mut line = std::iter::once(process.pid).chain(ancestors(&all, process));
        line.find(|pid| *pid == this || strangers.contains(pid)) == Some(this) && process.pid != this
    };
    let living = all.values().filter(|process| !process.dead);
    Some(living.filter(ours).copied().collect())
}

fn ancestors(all: &HashMap<Pid, Process>, process: &Process) -> impl Iterator<Item = Pid> {
    std::iter::successors(process.parent, |parent| all.get(parent)?.parent)
        // The table was not read in one instant: should it have a circle in it, this is the way out.
        .take(all.len())
}

impl Process {
    fn read(pid: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &stat)
    }

    fn parse(pid: Pid, stat: &[u8]) -> Option<Self> {
        // The second field is the program's name in brackets, and may have brackets and blanks of its own.
        let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?.split_ascii_whitespace();
        let state = fields.next()?;
        let (parent, group) = (parse_pid(fields.next()?), parse_pid(fields.next()?)?);
        let flags: u32 = fields.nth(3)?.parse().ok()?;
        let threads: u32 = fields.nth(10)?.parse().ok()?;
        // A process whose first thread has ended looks dead, but its other threads work on.
        let dead = matches!(state, "X" | "x") || (state == "Z" && threads <= 1);
        let exiting = flags & PF_EXITING != 0;
        Some(Self { pid, parent, group, dead, exiting, started: fields.nth(1)?.parse().ok()? })
    }

    /// Signals it, and certainly no later process of its number: that is looked at once more when the kernel's own
    /// handle is in hand.
    pub(super) fn signal(self, signal: Signal) {
        self.signal_by(pidfd_open(self.pid, PidfdFlags::empty()), signal);
    }

    /// Where there are no handles, before Linux 5.3 or behind a filter of system calls, the number has to do: between the look
    /// and the signal its process would have to end, and all other numbers to be given away.
    fn signal_by(self, handle: io::Result<OwnedFd>, signal: Signal) {
        let is_same = || Self::read(self.pid).is_some_and(|now| now.started == self.started);
        let sent = match handle {
            Ok(handle) if is_same() => pidfd_send_signal(handle, signal),
            Ok(_) => return,
            Err(error) => Err(error),
        };
        if matches!(sent, Err(io::Errno::NOSYS | io::Errno::PERM)) && is_same() {
            let _ = kill_process(self.pid, signal);
        }
    }
}

fn parse_pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn stat_line_is_parsed_for_any_program_name() {
        let stat = b"42 (a b) (c)) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1";
        let process = Process::parse(Pid::from_raw(42).unwrap(), stat).unwrap();
        assert!(!process.exiting);
        let stat = String::from_utf8_lossy(stat).replace("4194304", "4194308");
        assert!(Process::parse(process.pid, stat.as_bytes()).unwrap().exiting);
        assert_eq!(process.parent, Pid::from_raw(7));
        assert_eq!(process.group, Pid::from_raw(42).unwrap());
        assert_eq!(process.started, 98765);
        assert!(!process.dead);
        // Without its first thread, and without any.
        for (threads, dead) in [(2, false), (1, true)] {
            let stat = format!("42 (x) Z 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 98765 1 1");
            assert_eq!(Process::parse(Pid::from_raw(42).unwrap(), stat.as_bytes()).unwrap().dead, dead);
        }
        assert_eq!(Process::parse(Pid::INIT, b"1 (x"), None);
    }

    #[test]
    fn descendants_are_found_over_generations_and_zombies_are_not() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 100 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line)
            .unwrap();
        let grandchild = parse_pid(line.trim()).unwrap();
        let shell_pid = Pid::from_raw(i32::try_from(shell.id()).unwrap()).unwrap();
        let found = |pid| descendants(&[]).unwrap().into_iter().find(|process| process.pid == pid);
        assert!(found(shell_pid).is_some());
        let without_shell = descendants(&[shell_pid]).unwrap_or_default();
        assert!(without_shell.iter().all(|process| process.pid != grandchild));
        assert_eq!(any_descendant_lives(&[]), Some(true));
        found(grandchild).unwrap().signal(Signal::KILL);
        assert!(shell.wait().unwrap().success());
        assert!(found(shell_pid).is_none());
    }

    #[test]
    fn children_are_told_while_threads_come_and_go() {
        let mut sleeper = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(sleeper.id()).unwrap()).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    std::thread::spawn(std::thread::yield_now).join().unwrap();
                }
            });
            let told = (0..1_000).all(|_| children().is_some_and(|children| children.contains(&pid)));
            done.store(true, Relaxed);
            assert!(told);
        });
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn another_process_of_the_same_number_is_not_signalled() {
        let mut sleeper = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(sleeper.id()).unwrap()).unwrap();
        let mut process = Process::read(pid).unwrap();
        process.started += 1;
        process.signal(Signal::KILL);
        assert!(sleeper.try_wait().unwrap().is_none());
        process.started -= 1;
        process.signal(Signal::KILL);
        assert!(!sleeper.wait().unwrap().success());
    }

    /// As before Linux 5.3, and as a filter of system calls answers.
    #[test]
    fn process_is_signalled_by_number_without_a_pidfd() {
        for denied in [io::Errno::NOSYS, io::Errno::PERM] {
            let mut sleeper = Command::new("sleep").arg("100").spawn().unwrap();
            let pid = Pid::from_raw(i32::try_from(sleeper.id()).unwrap()).unwrap();
            let mut process = Process::read(pid).unwrap();
            process.started += 1;
            process.signal_by(Err(denied), Signal::KILL);
            assert!(sleeper.try_wait().unwrap().is_none());
            process.started -= 1;
            process.signal_by(Err(denied), Signal::KILL);
            assert!(!sleeper.wait().unwrap().success());
        }
    }
}
