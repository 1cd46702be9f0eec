//! How the command is stopped.
//!
//! A command must be gone before its lock can pass to another. `leasehold` cannot see to that alone: it may be killed,
//! or stopped, and then it renews nothing and stops nothing. So the command runs under a process of its own beside it,
//! the *watchdog*, which is this program executed again.
//!
//! ```text
//! leasehold ══ socket ══ watchdog ── command ── what the command starts
//!    renews the lease       knows when it ends
//! ```
//!
//! The watchdog knows one moment, the end of the lease as far as it is [confirmed](protocol::Order::ConfirmedUntil),
//! and keeps to one [`stop_plan`]: TERM early enough, then KILL, and nothing of the command lives when the lease ends.
//!
//! * The store says that the lock is lost: `leasehold` [says stop](protocol::Order::Stop).
//! * The store cannot be reached, or `leasehold` is stopped: no confirmation comes, and the moment does.
//! * `leasehold` is killed: the socket ends, which is as good as an order to stop.
//! * The watchdog is killed: the socket ends for `leasehold`, which kills the command's group itself; the kernel has
//!   killed the command already.
//!
//! Where to look: when it is stopped is [`stop_plan`], by what is [`watch`], and who is [`process_tree`].

pub(crate) mod process_tree;
pub(crate) mod protocol;
pub(crate) mod stop_plan;

mod child_status;
mod command;
mod forwarded_signals;
mod order_socket;
mod received_signals;
mod wake;
mod watch;

pub(crate) use protocol::Program;

use nix::sys::signal::{SigSet, Signal};
use order_socket::OrderSocket;
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::process::ExitCode;

/// What the watchdog is called on its own command line, by which it knows itself. Not a name with ours in it: `pkill -f leasehold` is
/// to reach one of the two.
pub(crate) const NAME: &str = "lh-watchdog";

/// What the kernel calls it.
#[cfg(target_os = "linux")]
const SHORT_NAME: &std::ffi::CStr = c"lh-watchdog";

/// True if this process was started to be a watchdog.
pub(crate) fn is_meant(name: Option<&OsStr>) -> bool {
    name == Some(OsStr::new(NAME))
}

/// A watchdog's whole life. Its only argument is the number of its socket.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    be_deaf();
    let served = take_socket(arguments).map(watch::serve);
    match served {
        Some(Ok(())) => ExitCode::SUCCESS,
        // No message: `leasehold` reads no output of this process, and only notices that it has ended.
        Some(Err(_)) | None => ExitCode::FAILURE,
    }
}

/// Signals are for `leasehold` or for the command. Sent to everybody at once, as by a service manager, they must not
/// end or suspend the one who stands between them.
fn be_deaf() {
    let mut all = SigSet::all();
    all.remove(Signal::SIGCHLD);
    // The mask is replaced, not added to: the caller may have blocked SIGCHLD, which tells of the command's end.
    let _ = all.thread_set_mask();
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(SHORT_NAME);
    let _ = process_tree::adopt_orphans(true);
}

fn take_socket(mut arguments: impl Iterator<Item = OsString>) -> Option<OrderSocket> {
    let number: RawFd = arguments.next()?.to_str()?.parse().ok()?;
    OrderSocket::take(number).ok()
}
