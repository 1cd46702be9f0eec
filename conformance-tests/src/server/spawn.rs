//! Starting processes that end with this one.

use super::StartError;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// Starts a process that the kernel kills when this one dies, however it dies. `set_up` gives it its pipes.
pub(crate) fn spawn_lasting(
    command: &Command,
    set_up: impl FnOnce(&mut Command),
) -> Result<Child, StartError> {
    let mut command = die_with_us(command);
    set_up(&mut command);
    spawn_from_lasting_thread(command)
}

/// The same command under `setpriv` (util-linux, on every Debian), so that the kernel kills the server when this
/// process dies without having had time to: a killed test run leaves nothing behind.
fn die_with_us(command: &Command) -> Command {
    let mut wrapped = Command::new("setpriv");
    wrapped.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(key, value),
            None => wrapped.env_remove(key),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped
}

/// The parent-death signal is sent when the *thread* that forked ends, not the process (`prctl(2)`), so servers are
/// started from one thread that lasts as long as the process.
fn spawn_from_lasting_thread(command: Command) -> Result<Child, StartError> {
    type Order = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, answer) = channel();
    let program = command.get_args().nth(2).unwrap_or_default().to_string_lossy().into_owned();
    let sent = spawner.send((command, reply)).is_ok();
    let spawned = answer.recv().ok().filter(|_| sent);
    match spawned {
        Some(Ok(child)) => Ok(child),
        Some(Err(error)) => Err(StartError::new(format!(
            "cannot execute setpriv (Debian package util-linux), which starts {program}: {error}"
        ))),
        None => Err(StartError::new("the thread that starts servers has ended")),
    }
}
