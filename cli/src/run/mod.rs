//! `leasehold run`: acquire, start, watch, stop, release.
//!
//! | step | where |
//! |---|---|
//! | find the command, before anybody is kept out for it | [`program`] |
//! | start the watchdog, and wait for the lock meanwhile | [`supervisor`], [`acquire`](crate::acquire) |
//! | start the command, and tell it about the lock | [`environment`], [`nesting`] |
//! | renew, forward signals, notice losses | [`watch`] |
//! | stop the command | [`watchdog`](crate::watchdog) |
//! | release, and say how it ended | [`ending`], [`verdict`] |
//!
//! Five words for an end, in the order in which they come about:
//!
//! * [`Ended`](crate::watchdog::protocol::Ended): what the watchdog reports of the command.
//! * [`End`](watch::End): that, or that the watchdog itself is gone.
//! * [`Verdict`]: the words for a command whose lock was lost, or whose watchdog was killed.
//! * [`Ending`], with its `Outcome`: how the run ended, for its exit code, for people, and for `--status-fd`.

mod ending;
mod environment;
mod nesting;
mod program;
pub(crate) mod signals;
mod supervisor;
mod verdict;
mod watch;

pub(crate) use nesting::Stack;

use crate::acquire::{Acquired, acquire, options};
use crate::args::{Common, RunArgs, lock_name};
use crate::exit::Code;
use crate::give_back::{PARTING, Released, give_back};
use crate::inherited;
use crate::report::{Console, Failure, write_promptly};
use crate::store::{Store, sources};
use crate::terminal::{self, Terminal};
use crate::watchdog::Program;
use crate::watchdog::family;
use crate::watchdog::plan::Terms;
use crate::watchdog::protocol::{Report, Start};
use ending::{Ending, StatusFd};
use environment::HeldLock;
use leasehold::client::{Clock, Moment, SystemClock};
use leasehold::semantics::HoldKind;
use leasehold::{
    AcquireOptions, DistributedLock, Error, ErrorKind, FencingToken, Health, LockGuard, LockName, Loss,
    LossCause,
};
use rustix::process::{Pid, Signal};
use signals::Signals;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant, SystemTime};
use supervisor::Supervisor;
use verdict::Verdict;
use watch::{Watch, end_of};

/// How long a start is waited for when a signal asks to end.
const SLOW_START: Duration = Duration::from_secs(5);

/// Runs a command under a lock.
pub(crate) async fn run(args: &RunArgs, common: &Common, console: Console) -> Result<Code, Failure> {
    let status = take_fd("status-fd", args.status_fd)?;
    let token = token_fd(args, status.as_ref());
    let status = StatusFd::new(status);
    let prepared = match token {
        Ok(token) => Run::prepare(args, token, common, console).await,
        Err(failure) => Err(failure),
    };
    let outcome = match prepared {
        Ok(run) => run.run().await,
        Err(failure) => Err(failure),
    };
    let ending = outcome.unwrap_or_else(|failure| Ending::failed(failure, args));
    status.write(&ending, console);
    Ok(ending.finish(console))
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
        common: &Common,
        console: Console,
    ) -> Result<Self, Failure> {
        let (name, words) = args.name_and_command()?;
        let name = lock_name(&name)?;
        let doing = program::description(&words);
        let program = program::find(words)?;
        let supervisor = Supervisor::prepare(&program).map_err(supervisor::not_prepared)?;
        let mut sources = sources(common);
        if let Some(ttl) = &args.acquire.ttl {
            sources = sources.with_ttl(ttl);
        }
        let store = Store::open(sources, console).await?;
        let stack = Stack::of_this_process();
        stack.check(&store, &name).await?;
        let signals =
            Signals::listen().map_err(|error| Failure::internal("cannot listen to signals", error))?;
        terminal::block_stop_on_output();
        Ok(Self {
            args,
            console,
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

    /// Whatever kept it from being started, it is not to run any more. Nor is anybody else while it may.
    async fn without_command(&mut self, guard: LockGuard, failure: Failure) -> Failure {
        let killed = self.supervisor.kill(guard.remaining().max(PARTING)).await;
        if let Some(terminal) = &self.terminal {
            terminal.take_back_from(None);
        }
        let Err(left) = killed else {
            return self.unused(guard, failure).await;
        };
        std::mem::forget(guard);
        failure.with_lines([("effect", format!("the lock was not released: {}", verdict::unstopped(&left)))])
    }

    /// Gives back a lock under which nothing runs, so that nobody is to be kept out for it, and says what became of it.
    async fn unused(&mut self, guard: LockGuard, failure: Failure) -> Failure {
        let Self { store, name, signals, console, options, .. } = self;
        let at_least = options.hold_at_least();
        // A guard keeps to its time at the least, and who takes the lock away does not.
        let token = guard.token();
        let taken_away = async { store.admin()?.force_release(name, Some(token?)).await };
        let is_freed =
            at_least.is_zero() || matches!(signals.unless_ended(taken_away).await, Ok(Ok(Some(_))));
        let released = give_back(store, guard, at_least, false, signals, *console).await;
        released.warn(store, name, *console);
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
    fn secrets(&self) -> Vec<String> {
        if self.args.pass_env { Vec::new() } else { environment::secrets(&self.store.config) }
    }

    /// Has the command started.
    async fn start(&mut self, guard: &LockGuard) -> Result<Started, Failure> {
        let token = guard.token()?;
        if let Some(file) = self.token_fd.take() {
            tell_token(&file, token)?;
        }
        // A hold that ends early by its own limit counts like a short lease.
        let terms = Terms::new(self.args.on_lost, self.args.grace, self.options.ttl().min(guard.remaining()));
        let hold = self.store.locks.semantics().hold;
        let terms = terms.dying_with_holder(hold == HoldKind::Connection);
        let lease_end = end_of(&guard.lease());
        let held = HeldLock {
            name: &self.name,
            token,
            backend: self.store.locks.semantics().backend,
            ttl: self.options.ttl(),
            acquired_at: SystemTime::now(),
        };
        let stack = self.stack.clone().with(&self.store, token, &self.name);
        let secrets = self.secrets();
        self.supervisor.start(Start {
            environment: environment::variables(&held, &stack, &secrets),
            secrets,
            terms,
            lease_end: lease_end.into(),
        });
        // A watchdog that somebody has stopped does not answer, but may have started the command: there must be time to kill
        // that before the lease ends, even if nothing renews it. Once the lease is over a watchdog starts nothing.
        let limit = guard.remaining().saturating_sub(terms.reserve / 2);
        let (report, heard) = self.answer(limit, terms.reserve / 4).await;
        match report {
            Some(Report::Started { pid }) => {
                self.console
                    .detail(format_args!("acquired {:?} with token {token}, started pid {pid}", self.name));
                if family::is_blind() {
                    let help = "mount the /proc of this process namespace, as unshare --mount-proc does";
                    let what = "what leaves the command's process group cannot be found, nor stopped if the lock is lost";
                    self.console.warn(what, Some(help));
                }
                Ok(Started { pid, terms, lease_end, at: Instant::now(), heard })
            }
            Some(Report::NotStarted { errno }) => Err(program::not_started(&self.program.name, errno)),
            Some(Report::TooLate) => {
                let message = format!("lock {:?} was acquired, but its lease is nearly over", self.name);
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

    /// The watchdog's report of the start, and the signals that came meanwhile: they are the command's. Whoever wants an end
    /// does not wait any longer for a watchdog that was stopped than for one that is slow.
    async fn answer(&mut self, patience: Duration, look: Duration) -> (Option<Report>, Vec<Signal>) {
        let clock = SystemClock::new();
        let (mut heard, mut end) = (Vec::new(), clock.now().plus(patience));
        loop {
            let left = end.since(clock.now());
            tokio::select! {
                biased;
                report = self.supervisor.report_within(left, look) => return (report, heard),
                signal = self.signals.next() => {
                    if signals::ends(signal) {
                        end = end.min(clock.now().plus(SLOW_START));
                    }
                    heard.push(signal);
                }
            }
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
            is_interrupted: false,
            is_continued: true,
        };
        command.heard.iter().for_each(|signal| watch.hear(*signal));
        let end = watch.until_the_end().await;
        let verdict = Verdict {
            name: &self.name,
            pid: command.pid,
            held_for: command.at.elapsed(),
            is_interrupted: watch.is_interrupted,
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

/// A command that runs.
struct Started {
    pid: i32,
    terms: Terms,
    lease_end: Moment,
    at: Instant,
    /// Signals that came while it was started.
    heard: Vec<Signal>,
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

/// Whoever asked for the token may check by it what the command does: nothing is done before it is told. A reader that is
/// gone does not want to know.
fn tell_token(file: &File, token: FencingToken) -> Result<(), Failure> {
    match write_promptly(file, format!("{token}\n").as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let help = ("help", "let somebody read from it, or leave --token-fd out".to_owned());
            let what = "cannot write the token to the descriptor of --token-fd";
            Err(Failure::internal(what, error).with_lines([help]))
        }
        _ => Ok(()),
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
