use super::process_tree;
use super::protocol::Start;
use crate::terminal::Terminal;
use nix::sys::signal::SigSet;
use rustix::process::{Pid, getpid};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// The command, as it is handed from `leasehold` to its watchdog: on the latter's command line.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Where it was found.
    pub(crate) file: OsString,
    /// What it was called.
    pub(crate) name: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// Starts the command in a process group of its own, with the terminal if it is given one. Answers its process id,
/// which is that of its group too.
pub(super) fn start(program: &Program, start: &Start, terminal: Option<Arc<Terminal>>) -> io::Result<Pid> {
    let mut command = Command::new(&program.file);
    command.arg0(&program.name).args(&program.arguments);
    command.process_group(0);
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    for name in &start.secrets {
        command.env_remove(name);
    }
    let prepare = preparation(terminal);
    #[allow(
        unsafe_code,
        reason = "between fork and exec only what is async-signal-safe may run: the closure makes four system calls, \
                  allocates nothing and takes no lock"
    )]
    unsafe {
        command.pre_exec(prepare)
    };
    Ok(Pid::from_child(&command.spawn()?))
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
