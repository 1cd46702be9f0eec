//! `leasehold run`: acquire, start, watch, stop, release.
//!
//! | step | where |
//! |---|---|
//! | find the command, before anybody is kept out for it | [`prepared_run`], [`program`] |
//! | start the watchdog, and wait for the lock meanwhile | [`supervisor`], [`acquire`](crate::acquire) |
//! | run it under the hold of a command above, with `--reentrant` | [`reentry`](crate::reentry) |
//! | start the command, and tell it about the lock | [`start`], [`environment`], [`nesting`](crate::nesting) |
//! | renew, forward signals, notice losses | [`watch`] |
//! | stop the command | [`watchdog`](crate::watchdog) |
//! | release, and say how it ended | [`ending`], [`finished_run`] |
//! | campaign, and run the command in each term | [`elect`] |
//!
//! Five words for an end, in the order in which they come about:
//!
//! * [`CommandEnd`](crate::watchdog::protocol::CommandEnd): what the watchdog reports of the command.
//! * [`End`](watch::End): that, or that the watchdog itself is gone.
//! * [`FinishedRun`]: the words for a command whose lock was lost, or whose watchdog was killed.
//! * [`Ending`], with its `EndingKind`: how the run ended, for its exit code, for people, and for `--status-fd`.

pub(crate) mod elect;
mod ending;
pub(crate) mod environment;
mod finished_run;
mod prepared_run;
mod program;
mod start;
mod supervisor;
mod watch;

use crate::acquire::{Acquired, acquire};
use crate::args::RunArgs;
use crate::give_back::{Released, give_back};
use crate::inherited;
use crate::lock_request::HeldLocks;
use crate::reentry::{HoldAbove, find_hold_above};
use crate::terminal;
use crate::watchdog::process_tree;
use ending::{Ending, StatusFd};
use environment::LOCK_VARIABLES;
use finished_run::FinishedRun;
use leasehold::{Health, LockGuard, Loss, LossCause};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation};
use prepared_run::PreparedRun;
use rustix::process::Pid;
use start::Started;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::Command;
use supervisor::Supervisor;
use watch::{InterruptSource, Watch};

/// Runs a command under a lock.
pub(crate) async fn run(args: &RunArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let status = inherited::take_for("status-fd", args.status_fd)?;
    let token = token_fd(args, status.as_ref());
    let status = StatusFd::new(status);
    let prepared = match token {
        Ok(token) => PreparedRun::prepare(args, token, invocation).await,
        Err(failure) => Err(failure),
    };
    let outcome = match prepared {
        Ok((run, supervisor)) => run.run(supervisor).await,
        Err(failure) => Err(failure),
    };
    let ending = outcome.unwrap_or_else(|failure| Ending::failed(failure, args));
    status.write(&ending, invocation.console);
    Ok(ending.finish(invocation.console))
}

impl PreparedRun<'_> {
    async fn run(mut self, supervisor: Supervisor) -> Result<Ending, Failure> {
        if !self.args.reentrant {
            self.stack.check(&self.store, &self.request).await?;
        } else {
            let looking = find_hold_above(&self.stack, &self.store, &self.request);
            match self.signals.unless_ended(looking).await.map(Result::transpose) {
                Ok(Some(hold)) => {
                    drop(supervisor);
                    return self.become_command(&hold?).await;
                }
                Ok(None) => {}
                Err(signal) => return Ok(Ending::interrupted(signal)),
            }
        }
        let acquisition = self.request.acquire(&self.store.locks, &self.options);
        let acquired = acquire(&self.store, &self.request, acquisition, &mut self.signals, self.console);
        let held = match acquired.await? {
            Acquired::Locks(held) => held,
            Acquired::Interrupted(signal) => return Ok(Ending::interrupted(signal)),
        };
        self.store.introduce(self.stack.is_in_another_store(&self.store), self.console);
        self.under(held, supervisor).await
    }

    /// Executes the command in place of this process, which holds nothing. Returns only if that fails, or if a signal came before.
    async fn become_command(&mut self, hold: &HoldAbove) -> Result<Ending, Failure> {
        if let Some(file) = self.token_fd.take() {
            start::tell_tokens(&file, [hold.token])?;
        }
        let secrets = self.secrets();
        let mut command = Command::new(&self.program.file);
        command.arg0(&self.program.name).args(&self.program.arguments);
        for name in secrets.iter().map(String::as_str).chain(LOCK_VARIABLES) {
            command.env_remove(name);
        }
        command.envs(&hold.variables).envs(environment::url_removed(&secrets));
        // What this process was for its own command would outlive the exec.
        terminal::allow_stop_on_output();
        let _ = process_tree::adopt_orphans(false);
        if let Some(signal) = self.signals.stop_listening().await {
            return Ok(Ending::interrupted(signal));
        }
        let error = command.exec();
        Err(program::not_started(&self.program.name, error.raw_os_error().unwrap_or_default()))
    }

    /// Runs the command under these locks, and gives them back.
    async fn under(&mut self, held: HeldLocks, mut supervisor: Supervisor) -> Result<Ending, Failure> {
        match self.start(&held, &mut supervisor).await {
            Ok(command) => Ok(self.watch(held.guard, command, supervisor).await),
            Err(failure) => Err(self.without_command(held.guard, failure, supervisor).await),
        }
    }

    async fn watch(&mut self, guard: LockGuard, command: Started, mut supervisor: Supervisor) -> Ending {
        let mut watch = Watch {
            supervisor: &mut supervisor,
            signals: &mut self.signals,
            terminal: self.terminal.as_ref(),
            command: Pid::from_raw(command.pid),
            locks: self.request.to_string(),
            lease: guard.lease(),
            terms: command.terms,
            lease_end: command.lease_end,
            console: self.console,
            interrupted: InterruptSource::None,
            is_told_to_end: false,
            is_continued: true,
        };
        command.heard.iter().for_each(|signal| watch.hear(*signal));
        if watch.interrupted == InterruptSource::Signal {
            // Heard before the command had the terminal: it may have been the terminal's.
            watch.interrupted = InterruptSource::None;
        }
        let end = watch.until_the_end().await;
        let finished = FinishedRun {
            locks: self.request.to_string(),
            pid: command.pid,
            held_for: command.at.elapsed(),
            interrupted: watch.interrupted,
            is_told_to_end: watch.is_told_to_end,
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
            give_back(&self.store, &self.request, guard, at_least, stopped, &mut self.signals, self.console)
                .await
        };
        if !self.is_term {
            released.settle(&self.store).await;
        }
        // Otherwise it is the error, or a matter of course.
        if !self.args.strict_release && !stopped {
            released.warn(&self.store, &self.request, self.console);
        }
        supervisor.dismiss();
        Ending::of_command(&finished, self.args, end, loss, released)
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
        _ => inherited::take_for("token-fd", args.token_fd),
    }
}
