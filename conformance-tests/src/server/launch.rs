use crate::stop::Stop;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// How to start a server in a data directory, and how to tell that it is ready.
#[allow(unused_variables, reason = "a method that does nothing needs none of them")]
pub trait Launch: Send + Sync + 'static {
    /// The command line.
    fn command(&self, data: &Path) -> Command;

    /// True if it answers.
    fn is_ready(&self) -> bool;

    /// Fills an empty data directory, if the server does not do so itself.
    ///
    /// # Errors
    ///
    /// What went wrong.
    fn prepare(&self, data: &Path) -> Result<(), Stop> {
        Ok(())
    }

    /// From the next start on, it acknowledges nothing that is not on its disk. By default it is such a server anyway.
    fn sync_each_write(&mut self) {}

    /// Removes what a server that was killed leaves in the system outside of its data directory, when it is not to come
    /// back.
    fn bury(&self, data: &Path) {}
}

/// Runs a command to its end.
///
/// # Errors
///
/// If it cannot be executed, or ends with another status than 0; with the last lines of what it printed.
pub fn run(command: &mut Command) -> Result<Output, Stop> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| Stop::failed(format!("cannot execute {program}: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let words = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
    Err(Stop::failed(format!("{program} ended with {}: {}", output.status, tail(&words))))
}

/// The last lines, in one.
pub(super) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}

/// The same command by `setpriv`: the kernel kills it when this process dies. `pre_exec` would copy this process and its memory first.
pub(crate) fn killed_with_this_process(command: &Command) -> Command {
    let mut killed = Command::new("setpriv");
    killed.args(["--pdeathsig=KILL", "--"]).arg(command.get_program()).args(command.get_args());
    command.get_current_dir().map(|folder| killed.current_dir(folder));
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => killed.env(key, value),
            None => killed.env_remove(key),
        };
    }
    killed
}

/// Starts what is to be [killed with this process](killed_with_this_process). The signal is sent when the *thread* that started it
/// ends, not the process (`prctl(2)`), so all are started from one thread that lasts as long as the process.
pub(crate) fn spawn_lasting(command: Command) -> Result<Child, Stop> {
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
    let _ = spawner.send((command, reply));
    match answer.recv() {
        Ok(Ok(child)) => Ok(child),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Stop::missing("there is no `setpriv` (Debian package util-linux)"))
        }
        Ok(Err(error)) => Err(Stop::failed(format!("cannot execute setpriv: {error}"))),
        Err(_) => Err(Stop::failed("the thread that starts servers has ended")),
    }
}
