//! What is done for a run before anybody is kept out for it.

use super::program;
use super::supervisor::{self, Supervisor};
use crate::acquire::options;
use crate::args::{RunArgs, lock_name};
use crate::nesting::Stack;
use crate::terminal::{self, Terminal};
use crate::watchdog::Program;
use leasehold::{AcquireOptions, LockName};
use leasehold_console::signals::Signals;
use leasehold_console::{Console, Failure, Invocation, OpenStore};
use std::fs::File;

/// A run that may begin: nothing that could be found wrong before is wrong.
pub(super) struct PreparedRun<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) console: Console,
    pub(super) store: OpenStore,
    pub(super) name: LockName,
    pub(super) program: Program,
    pub(super) supervisor: Supervisor,
    pub(super) options: AcquireOptions,
    pub(super) stack: Stack,
    pub(super) signals: Signals,
    /// As it was found, before a command could change it.
    pub(super) terminal: Option<Terminal>,
    pub(super) token_fd: Option<File>,
}

impl<'a> PreparedRun<'a> {
    /// Everything that can be found wrong before anybody is kept out.
    pub(super) async fn prepare(
        args: &'a RunArgs,
        token_fd: Option<File>,
        invocation: &Invocation,
    ) -> Result<Self, Failure> {
        let (name, words) = args.name_and_command()?;
        let name = lock_name(&name)?;
        let doing = program::description(&words);
        let program = program::find(words)?;
        let supervisor = Supervisor::prepare(&program).map_err(supervisor::not_prepared)?;
        let store = invocation.open_with_ttl(args.acquire.ttl.as_deref()).await?;
        let stack = Stack::of_this_process();
        stack.check(&store, &name).await?;
        let signals =
            Signals::listen().map_err(|error| Failure::internal("cannot listen to signals", error))?;
        terminal::block_stop_on_output();
        Ok(Self {
            args,
            console: invocation.console,
            options: options(&args.acquire, &store, &doing),
            store,
            name,
            program,
            supervisor,
            stack,
            signals,
            terminal: Terminal::controlling(),
            token_fd,
        })
    }
}
