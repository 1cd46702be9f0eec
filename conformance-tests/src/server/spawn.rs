//! Starting processes that end with this one.

use crate::stop::Stop;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// Starts a process that the kernel kills when this one dies, however it dies: a killed test run leaves nothing behind.
///
/// The parent-death signal is sent when the *thread* that forked ends, not the process (`prctl(2)`), so all are started from
/// one thread that lasts as long as the process.
pub(crate) fn spawn_lasting(mut command: Command) -> Result<Child, Stop> {
    type Order = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    let die_with_us = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    #[allow(unsafe_code, reason = "the signal must be set between fork and exec")]
    // SAFETY: the closure makes one system call, `prctl`, and touches no memory of the parent.
    unsafe {
        command.pre_exec(die_with_us);
    }
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
    let program = command.get_program().to_string_lossy().into_owned();
    let _ = spawner.send((command, reply));
    match answer.recv() {
        Ok(Ok(child)) => Ok(child),
        Ok(Err(error)) => Err(Stop::failed(format!("cannot execute {program}: {error}"))),
        Err(_) => Err(Stop::failed("the thread that starts servers has ended")),
    }
}
