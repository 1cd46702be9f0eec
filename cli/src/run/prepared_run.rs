//! What is done for a run before anybody is kept out for it.

use super::supervisor::{self, Supervisor};
use super::{environment, program};
use crate::acquire::options;
use crate::args::RunArgs;
use crate::lock_request::LockRequest;
use crate::nesting::Stack;
use crate::terminal::{self, Terminal};
use crate::watchdog::{Program, process_tree};
use leasehold::{AcquireOptions, Error};
use leasehold_console::signals::Signals;
use leasehold_console::{Console, Failure, Invocation, OpenStore};
use std::fs::File;

/// A run that may begin: nothing that could be found wrong before is wrong.
pub(super) struct PreparedRun<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) console: Console,
    pub(super) store: OpenStore,
    pub(super) request: LockRequest,
    /// True if the lock is that of an election.
    pub(super) is_term: bool,
    pub(super) program: Program,
    pub(super) options: AcquireOptions,
    pub(super) stack: Stack,
    pub(super) signals: Signals,
    /// As it was found, before a command could change it.
    pub(super) terminal: Option<Terminal>,
    pub(super) token_fd: Option<File>,
}

impl<'a> PreparedRun<'a> {
    /// Finds everything that can be found wrong before anybody is kept out. The watchdog is started first, in the first term by a process with
    /// nobody else in it.
    pub(super) async fn prepare(
        args: &'a RunArgs,
        token_fd: Option<File>,
        invocation: &Invocation,
    ) -> Result<(Self, Supervisor), Failure> {
        let (names, words) = args.names_and_command()?;
        let request = LockRequest::read(&names, args.kind)?;
        environment::check_own()?;
        if args.command.wait_all && !process_tree::tells_descent() {
            let fix = "leave it out; on Linux, mount the /proc of this process namespace";
            return Err(Error::invalid("--wait-all", "what a command starts cannot be told here", fix).into());
        }
        let doing = program::description(&words);
        let program = program::find(words)?;
        let supervisor = Supervisor::prepare(&program).map_err(supervisor::not_prepared)?;
        let store = invocation.open_with_ttl(args.acquire.lease.ttl.as_deref()).await?;
        request.check(&store)?;
        let options = options(&args.acquire, &store, &doing, invocation.console);
        options.check()?;
        let stack = Stack::of_this_process();
        let signals = Signals::listen()?;
        terminal::block_stop_on_output();
        let run = Self {
            args,
            console: invocation.console,
            options,
            store,
            request,
            is_term: false,
            program,
            stack,
            signals,
            terminal: Terminal::controlling(),
            token_fd,
        };
        Ok((run, supervisor))
    }
}
