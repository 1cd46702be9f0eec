//! From the lock on, until it is known that the command runs, or that it does not.

use super::environment::{self, LOCK_VARIABLES, LockFacts};
use super::prepared_run::PreparedRun;
use super::supervisor::{Supervisor, not_prepared};
use super::watch::end_of;
use super::{finished_run, program};
use crate::args::CommandArgs;
use crate::give_back::{CLOSE_TIMEOUT, Released, give_back};
use crate::inherited;
use crate::lock_request::HeldLocks;
use crate::watchdog::process_tree;
use crate::watchdog::protocol::{CommandReport, Start};
use crate::watchdog::stop_plan::Terms;
use leasehold::client::{Clock, Moment, SystemClock};
use leasehold::semantics::HoldKind;
use leasehold::{DistributedLock, Error, ErrorKind, LockGuard};
use leasehold_console::{Failure, write_with_timeout};
use rustix::process::Signal;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant, SystemTime};

/// Timeout of a start after a signal that asks to end.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A command that runs.
pub(super) struct Started {
    pub(super) pid: i32,
    pub(super) terms: Terms,
    pub(super) lease_end: Moment,
    pub(super) at: Instant,
    /// Signals that came while it was started.
    pub(super) heard: Vec<Signal>,
}

impl PreparedRun<'_> {
    /// After a failed start, kills the command if it runs all the same, and releases the lock only if it is gone.
    pub(super) async fn without_command(
        &mut self,
        guard: LockGuard,
        failure: Failure,
        mut supervisor: Supervisor,
    ) -> Failure {
        let killed = supervisor.kill(guard.remaining().max(CLOSE_TIMEOUT)).await;
        if let Some(terminal) = &self.terminal {
            terminal.take_back_from(None);
        }
        let Err(left) = killed else {
            return self.unused(guard, failure).await;
        };
        std::mem::forget(guard);
        failure.with_lines([(
            "effect",
            format!("the lock was not released: {}", finished_run::unstopped(&left)),
        )])
    }

    /// Gives back a lock under which nothing runs, so that nobody is to be kept out for it, and says what became of it.
    async fn unused(&mut self, guard: LockGuard, failure: Failure) -> Failure {
        let Self { store, request, signals, console, options, .. } = self;
        let at_least = options.hold_at_least();
        // A guard keeps to its time at the least, and who takes the lock away does not.
        let token = guard.token();
        let name = guard.name().clone();
        let taken_away = async { store.admin()?.force_release(&name, Some(token?)).await };
        let is_freed = at_least.is_zero()
            || matches!(signals.unless_ended(taken_away).await, Ok(Ok(ended)) if !ended.is_empty());
        let released = give_back(store, request, guard, at_least, false, signals, *console).await;
        released.settle(store).await;
        released.warn(store, request, *console);
        match (released, is_freed) {
            (Released::Unconfirmed(_), _) => failure,
            (_, true) => failure.with_lines([("effect", "the lock was released".to_owned())]),
            (_, false) => {
                let kept = "the lock was released, and --hold-at-least still keeps others out";
                failure.with_lines([("effect", kept.to_owned())])
            }
        }
    }

    /// What the command is not to see.
    pub(super) fn secrets(&self) -> Vec<String> {
        if self.args.command.pass_env { Vec::new() } else { environment::secrets(&self.store.config) }
    }

    /// Has the command started.
    pub(super) async fn start(
        &mut self,
        held: &HeldLocks,
        supervisor: &mut Supervisor,
    ) -> Result<Started, Failure> {
        // Killed while nothing ran under it, as for lack of memory: another one does as well.
        if supervisor.has_ended() {
            *supervisor = Supervisor::prepare(&self.program).map_err(not_prepared)?;
        }
        // A candidate has other commands to start.
        if !self.is_term {
            inherited::release_stdout();
        }
        let guard = &held.guard;
        if let Some(file) = self.token_fd.take() {
            tell_tokens(&file, held.tokens.iter().map(|(_, token)| token))?;
        }
        let CommandArgs { on_lost, grace, .. } = self.args.command;
        // A hold that ends early by its own limit counts like a short lease.
        let terms = Terms::new(on_lost, grace, self.options.ttl().min(guard.remaining()));
        let hold = self.store.locks.semantics().hold;
        let terms = terms.dying_with_holder(hold == HoldKind::Connection);
        let lease_end = end_of(&guard.lease());
        let facts = LockFacts {
            request: &self.request,
            held,
            is_term: self.is_term,
            backend: self.store.locks.semantics().backend,
            ttl: self.options.ttl(),
            acquired_at: SystemTime::now(),
        };
        let stack = self.stack.clone().with(&self.store, &held.tokens);
        let secrets = self.secrets();
        let environment = facts.variables(&stack, &secrets);
        // The variables of a lock further out may be of another kind.
        let removed = secrets.into_iter().chain(LOCK_VARIABLES.map(str::to_owned)).collect();
        supervisor.start(Start {
            removed,
            environment,
            // The next leader must not find the processes of this one.
            waits_for_all: self.args.command.wait_all || self.is_term,
            terms,
            lease_end: lease_end.into(),
        });
        // A watchdog that somebody has stopped does not answer, but may have started the command: there must be time to kill
        // that before the lease ends, even if nothing renews it. Once the lease is over a watchdog starts nothing.
        let limit = guard.remaining().saturating_sub(terms.reserve / 2);
        let (report, heard) = self.answer(supervisor, limit, terms.reserve / 4).await;
        if !matches!(report, Some(CommandReport::Started { .. })) {
            self.signals.end_by(&heard);
        }
        match report {
            Some(CommandReport::Started { pid }) => {
                let tokens: Vec<String> = held.tokens.iter().map(|(_, token)| token.to_string()).collect();
                let (locks, tokens) = (&self.request, tokens.join(", "));
                self.console.detail(format_args!("acquired {locks} with token {tokens}, started pid {pid}"));
                if process_tree::is_blind() {
                    let help = "mount the /proc of this process namespace, as unshare --mount-proc does";
                    let what = "what leaves the command's process group cannot be found, nor stopped if the lock is lost";
                    self.console.warn(what, Some(help));
                }
                Ok(Started { pid, terms, lease_end, at: Instant::now(), heard })
            }
            Some(CommandReport::NotStarted { errno }) => Err(program::not_started(&self.program.name, errno)),
            Some(CommandReport::TooLate) => {
                let message = format!("lock {} was acquired, but its lease is nearly over", self.request);
                let limited = self.options.max_hold() < self.options.ttl();
                let help = if limited { "lengthen --max-hold" } else { "lengthen the ttl" };
                Err(Error::new(ErrorKind::Lost, message).with_help(help).into())
            }
            _ => Err(Failure::internal(
                "the watchdog was killed or stopped",
                io::Error::other("it has not reported that the command runs; whatever ran of it is killed"),
            )),
        }
    }

    /// The watchdog's report of the start, and the signals that came meanwhile: they are the command's. After a signal that asks
    /// to end, a watchdog has `START_TIMEOUT` to answer, also if it was stopped.
    async fn answer(
        &mut self,
        supervisor: &mut Supervisor,
        patience: Duration,
        look: Duration,
    ) -> (Option<CommandReport>, Vec<Signal>) {
        let clock = SystemClock::new();
        let (mut heard, mut end) = (Vec::new(), clock.now().plus(patience));
        loop {
            let left = end.since(clock.now());
            tokio::select! {
                biased;
                report = supervisor.report_within(left, look) => return (report, heard),
                signal = self.signals.next() => {
                    if self.signals.ends(signal) {
                        end = end.min(clock.now().plus(START_TIMEOUT));
                    }
                    heard.push(signal);
                }
            }
        }
    }
}

/// The caller may check the command's work by the tokens, so they are written before the command starts. A closed reader
/// is no failure.
pub(super) fn tell_tokens<T: Display>(
    file: &File,
    tokens: impl IntoIterator<Item = T>,
) -> Result<(), Failure> {
    let lines: String = tokens.into_iter().map(|token| format!("{token}\n")).collect();
    match write_with_timeout(file, lines.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let help = ("help", "let somebody read from it, or leave --token-fd out".to_owned());
            let what = "cannot write the token to the descriptor of --token-fd";
            Err(Failure::internal(what, error).with_lines([help]))
        }
        _ => Ok(()),
    }
}
