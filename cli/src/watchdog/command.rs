use super::process_tree;
use super::protocol::{Program, Start};
use crate::terminal::Terminal;
use nix::sys::signal::SigSet;
use rustix::fs::fstat;
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// Starts the command in a process group of its own, with the terminal if it is given one. Answers its process id,
/// which is that of its group too.
pub(super) fn start(program: &Program, start: &Start, terminal: Option<Arc<Terminal>>) -> io::Result<Pid> {
    let mut command = executed(program, start);
    command.process_group(0);
    let mut prepare = preparation(terminal);
    let naming = variables_that_name_leasehold();
    let mut named = (!naming.is_empty()).then(|| executed(program, start));
    #[allow(
        unsafe_code,
        reason = "between fork and exec only what is async-signal-safe may run: the closure makes four system calls. What it allocates \
                  for these variables is safe because this process has one thread, so that no other can hold the allocator's lock"
    )]
    unsafe {
        command.pre_exec(move || {
            prepare()?;
            named.as_mut().map_or(Ok(()), |command| Err(execute_named(command, &naming)))
        })
    };
    Ok(Pid::from_child(&command.spawn()?))
}

/// The command with its environment.
fn executed(program: &Program, start: &Start) -> Command {
    let mut command = Command::new(&program.file);
    command.arg0(&program.name).args(&program.arguments);
    for name in &start.removed {
        command.env_remove(name);
    }
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    command
}

/// The variables by which a service manager says that its sockets, or its watchdog, are for `leasehold`: they are for the command
/// (`sd_listen_fds(3)`, `sd_watchdog_enabled(3)`).
fn variables_that_name_leasehold() -> Vec<&'static str> {
    let leasehold = getppid().map(|parent| parent.as_raw_pid().to_string());
    let names_it = |variable: &&str| leasehold.is_some() && std::env::var(variable).ok() == leasehold;
    ["LISTEN_PID", "WATCHDOG_PID"].into_iter().filter(names_it).collect()
}

/// Executes the command in this process, which these variables name from now on. Returns only if that fails.
fn execute_named(command: &mut Command, naming: &[&str]) -> io::Error {
    command.envs(naming.iter().map(|variable| (variable, getpid().as_raw_pid().to_string())));
    if std::env::var_os("LISTEN_PIDFDID").is_some() {
        let inode = pidfd_open(getpid(), PidfdFlags::empty()).and_then(|pidfd| Ok(fstat(pidfd)?.st_ino));
        match inode {
            Ok(inode) => command.env("LISTEN_PIDFDID", inode.to_string()),
            Err(_) => command.env_remove("LISTEN_PIDFDID"),
        };
    }
    command.exec()
}

/// What the new process does before it becomes the command.
fn preparation(terminal: Option<Arc<Terminal>>) -> impl FnMut() -> io::Result<()> + Send + Sync + 'static {
    let watchdog = getpid();
    move || {
        // Should `leasehold` and watchdog be killed in one stroke, the kernel still kills the command.
        process_tree::die_with_parent(watchdog)?;
        if let Some(terminal) = &terminal {
            // Here, not in the watchdog: a command that reads before it has the terminal would be suspended for it.
            terminal.give_to(getpid());
        }
        // The watchdog has blocked every signal, and a mask survives exec. Handlers do not; what was ignored from the
        // start, as under nohup, stays so.
        SigSet::empty().thread_set_mask().map_err(io::Error::from)
    }
}
