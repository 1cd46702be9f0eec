//! What the kernel knows of a server's processes, and does to them.

use super::run;
use crate::stop::Stop;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long one may take until it stands still. A thread may be in the middle of a write to the disk.
const STILL_WITHIN: Duration = Duration::from_secs(5);

/// Tells the group and, because PostgreSQL makes each of its children a session of its own, the children.
pub(super) fn signal(child: &Child, signal: Signal) {
    // Before the parent: once it is dead, nobody knows whose they were.
    let children = children(child);
    // It may have ended by itself; then there is nobody to tell.
    let _ = kill_process_group(Pid::from_child(child), signal);
    for child in children {
        let _ = kill_process(child, signal);
    }
}

/// How it has ended, if it has. It is left to be waited for: until then its number, which is its group's too, is nobody
/// else's, and whatever it has left behind can be killed.
pub(super) fn end_of(process: &Child) -> Option<ExitStatus> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(Pid::from_child(process)), look).ok()??;
    let by_itself = status.exit_status().map(|code| code << 8);
    by_itself.or(status.terminating_signal()).map(ExitStatus::from_raw)
}

pub(super) fn children(parent: &Child) -> Vec<Pid> {
    let pid = parent.id();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Waits until nothing runs in a process that was stopped, nor in its children. `kill(2)` returns before anybody has
/// taken the signal: a thread that a request wakes in that moment would still answer it.
pub(crate) fn until_still(stopped: &Child) {
    let all: Vec<Pid> = children(stopped).into_iter().chain([Pid::from_child(stopped)]).collect();
    holds_within(STILL_WITHIN, || all.iter().all(|pid| is_still(*pid)));
}

/// Asks until this holds; false if it does not in time.
pub(super) fn holds_within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Each of its threads is stopped, or has ended.
fn is_still(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    threads.into_iter().flatten().flatten().all(|thread| is_in_state(&thread.path(), &['T', 't', 'Z', 'X']))
}

/// Root in a container may not limit whoever it likes; but who is of the same user and group may.
pub(super) fn limit_as_its_user(pid: Pid) -> Result<(), Stop> {
    let number = pid.as_raw_nonzero().to_string();
    let Ok(owner) = std::fs::metadata(format!("/proc/{number}")) else { return Ok(()) };
    let (user, group) = (format!("--reuid={}", owner.uid()), format!("--regid={}", owner.gid()));
    let mut command = Command::new("setpriv");
    command.args([&user, &group, "--clear-groups", "prlimit", "--fsize=0:", "--pid", &number]);
    match run(&mut command) {
        Err(error) if is_running(pid) => Err(error),
        // It may have ended meanwhile.
        _ => Ok(()),
    }
}

/// A process that has ended and that nobody has waited for yet runs no longer.
pub(super) fn is_running(pid: Pid) -> bool {
    let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    !is_in_state(&process, &['Z', 'X'])
}

/// True if the state is one of these letters (`proc_pid_stat(5)`), or the task is not there any more.
fn is_in_state(task: &Path, states: &[char]) -> bool {
    let status = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
    status.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(states))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_an_exit_status_leaves_the_child_to_be_waited_for() {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        holds_within(STILL_WITHIN * 6, || end_of(&child).is_some());
        let seen = end_of(&child);
        assert_eq!(seen, Some(child.wait().unwrap()));
        assert_eq!(seen.and_then(|status| status.code()), Some(3));
    }
}
