//! `leasehold run`: acquire, start, watch, stop, release.
//!
//! | step | where |
//! |---|---|
//! | find the command, before anybody is kept out for it | [`program`] |
//! | start the watchdog, and wait for the lock meanwhile | [`supervisor`], [`acquire`](crate::acquire) |
//! | start the command, and tell it about the lock | [`start`], [`environment`], [`nesting`](crate::nesting) |
//! | renew, forward signals, notice losses | [`watch`] |
//! | stop the command | [`watchdog`](crate::watchdog) |
//! | release, and say how it ended | [`ending`], [`verdict`] |
//!
//! Five words for an end, in the order in which they come about:
//!
//! * [`CommandEnd`](crate::watchdog::protocol::CommandEnd): what the watchdog reports of the command.
//! * [`End`](watch::End): that, or that the watchdog itself is gone.
//! * [`Verdict`]: the words for a command whose lock was lost, or whose watchdog was killed.
//! * [`Ending`], with its `Outcome`: how the run ended, for its exit code, for people, and for `--status-fd`.

mod ending;
mod environment;
mod program;
mod start;
mod supervisor;
mod verdict;
mod watch;

use crate::acquire::{Acquired, acquire, options};
use crate::args::{RunArgs, lock_name};
use crate::give_back::{Released, give_back};
use crate::inherited;
use crate::nesting::Stack;
use crate::terminal::{self, Terminal};
use crate::watchdog::Program;
use ending::{Ending, StatusFd};
use leasehold::{AcquireOptions, Error, Health, LockGuard, LockName, Loss, LossCause};
use leasehold_console::exit::Code;
use leasehold_console::signals::Signals;
use leasehold_console::{Console, Failure, Invocation, Store};
use rustix::process::Pid;
use start::Started;
use std::fs::File;
use std::os::fd::RawFd;
use supervisor::Supervisor;
use verdict::Verdict;
use watch::{Interrupted, Watch};

/// Runs a command under a lock.
pub(crate) async fn run(args: &RunArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let status = take_fd("status-fd", args.status_fd)?;
    let token = token_fd(args, status.as_ref());
    let status = StatusFd::new(status);
    let prepared = match token {
        Ok(token) => Run::prepare(args, token, invocation).await,
        Err(failure) => Err(failure),
    };
    let outcome = match prepared {
        Ok(run) => run.run().await,
        Err(failure) => Err(failure),
    };
    let ending = outcome.unwrap_or_else(|failure| Ending::failed(failure, args));
    status.write(&ending, invocation.console);
    Ok(ending.finish(invocation.console))
}

struct Run<'a> {
    args: &'a RunArgs,
    console: Console,
    store: Store,
    name: LockName,
    program: Program,
    supervisor: Supervisor,
    options: AcquireOptions,
    stack: Stack,
    signals: Signals,
    /// As it was found, before a command could change it.
    terminal: Option<Terminal>,
    token_fd: Option<File>,
}

impl<'a> Run<'a> {
    /// Everything that can be found wrong before anybody is kept out.
    async fn prepare(
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

    async fn run(mut self) -> Result<Ending, Failure> {
        let acquired = acquire(&self.store, &self.name, &self.options, &mut self.signals, self.console);
        let guard = match acquired.await? {
            Acquired::Lock(guard) => guard,
            Acquired::Interrupted(signal) => return Ok(Ending::interrupted(signal)),
        };
        inherited::release_stdout();
        match self.start(&guard).await {
            Ok(command) => Ok(self.watch(guard, command).await),
            Err(failure) => Err(self.without_command(guard, failure).await),
        }
    }

    async fn watch(mut self, guard: LockGuard, command: Started) -> Ending {
        let mut watch = Watch {
            supervisor: &mut self.supervisor,
            signals: &mut self.signals,
            terminal: self.terminal.as_ref(),
            command: Pid::from_raw(command.pid),
            lease: guard.lease(),
            terms: command.terms,
            lease_end: command.lease_end,
            console: self.console,
            interrupted: Interrupted::No,
            is_continued: true,
        };
        command.heard.iter().for_each(|signal| watch.hear(*signal));
        if watch.interrupted == Interrupted::BySignal {
            // Heard before the command had the terminal: it may have been the terminal's.
            watch.interrupted = Interrupted::No;
        }
        let end = watch.until_the_end().await;
        let verdict = Verdict {
            name: &self.name,
            pid: command.pid,
            held_for: command.at.elapsed(),
            interrupted: watch.interrupted,
        };
        let stopped = end.was_stopped();
        let loss =
            guard.loss().or_else(|| (stopped && self.is_near_max_hold(&guard, &command)).then(at_limit));
        let released = if end.has_survivors() {
            // They work on, and nobody else is to do so meanwhile.
            std::mem::forget(guard);
            Released::LeftToLease
        } else {
            let at_least = self.options.hold_at_least().saturating_sub(command.at.elapsed());
            give_back(&self.store, guard, at_least, stopped, &mut self.signals, self.console).await
        };
        // Otherwise it is the error, or a matter of course.
        if !self.args.strict_release && !stopped {
            released.warn(&self.store, &self.name, self.console);
        }
        self.supervisor.dismiss();
        Ending::of_command(&verdict, self.args, end, loss, released)
    }

    /// True if it was not a renewal that was missing, but `max_hold` that was near: the lease ends with it. Otherwise a
    /// lease whose renewals are confirmed has more than a third of its length left.
    fn is_near_max_hold(&self, guard: &LockGuard, command: &Started) -> bool {
        let lease_end = command.at.elapsed().saturating_add(guard.remaining());
        let limit = self.options.max_hold().saturating_sub(self.options.ttl() / 3);
        guard.health() == Health::Held && lease_end >= limit
    }
}

fn at_limit() -> Loss {
    Loss::new(LossCause::MaxHold)
}

/// Where the token is to be written. The descriptor for the status, which is ours by now, may be meant for both.
fn token_fd(args: &RunArgs, status: Option<&File>) -> Result<Option<File>, Failure> {
    match status {
        Some(file) if args.token_fd == args.status_fd => {
            let twice = |error| Failure::internal("cannot use one descriptor for two things", error);
            Ok(Some(file.try_clone().map_err(twice)?))
        }
        _ => take_fd("token-fd", args.token_fd),
    }
}

/// A descriptor that the caller has opened for us.
fn take_fd(option: &str, number: Option<RawFd>) -> Result<Option<File>, Failure> {
    let taken = number.map(inherited::take).transpose();
    let not_open = |_| {
        let number = number.unwrap_or_default();
        let problem = format_args!("descriptor {number} is not open");
        Error::invalid(option, problem, format!("open it when you call: {number}>FILE"))
    };
    Ok(taken.map_err(not_open)?.map(File::from))
}
