//! The watchdog at work: one loop over what has happened and what is to be done.

use super::child_status::{exit_of, suspension_of};
use super::command;
use super::forwarded_signals::ForwardedSignals;
use super::order_socket::OrderSocket;
use super::process_tree::{self, ProcessTree};
use super::protocol::{CommandEnd, CommandReport, Exit, Order, Program, Start, StopResult};
use super::received_signals::ReceivedSignals;
use super::stop_plan::{StopPlan, StopStep};
use super::wake::Wake;
use crate::inherited;
use crate::terminal::{self, Terminal};
use leasehold::client::{Clock, Moment, SystemClock};
use rustix::process::{Pid, Signal, getppid};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Interval between two checks whether the killed processes are gone. The end of a child is noticed at once; the end of other
/// descendants is not.
const KILL_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Starts the command when it is ordered to, and answers when it is over and was reported.
pub(super) fn serve(mut socket: OrderSocket) -> io::Result<()> {
    let wake = Wake::new()?;
    let leasehold = Leasehold::this_one();
    let orders = (socket.wait_for_order(), socket.wait_for_order());
    let (Some(Order::Prepare(program)), Some(Order::Start(start))) = orders else {
        return Ok(());
    };
    socket.stop_waiting()?;
    // Killed since it gave the order: nobody renews, and a lock that ends with its holder is somebody else's already.
    if socket.has_ended() {
        return Ok(());
    }
    let mut watchdog = match Watchdog::begin(socket, wake, leasehold, &program, &start) {
        Ok(watchdog) => watchdog,
        Err((mut socket, report)) => {
            socket.report(&report);
            return Ok(());
        }
    };
    inherited::release_stdout();
    let mut ended = watchdog.until_the_end();
    // A command that a signal ended could not restore the terminal modes; shells restore them too.
    let untidy = ended.stopped.is_some() || matches!(ended.exit, Some(Exit::Signal(_)));
    ended.had_terminal = watchdog.take_terminal_back(untidy) || watchdog.had_terminal;
    watchdog.socket.report(&CommandReport::Ended(ended));
    Ok(())
}

/// The process group that `leasehold` is in: whom the terminal belongs to when the command does not have it.
struct Leasehold {
    group: Option<Pid>,
}

impl Leasehold {
    fn this_one() -> Self {
        Self { group: getppid().and_then(|parent| terminal::group_of(Some(parent))) }
    }
}

struct Watchdog {
    socket: OrderSocket,
    wake: Wake,
    clock: SystemClock,
    leasehold: Leasehold,
    terminal: Option<Arc<Terminal>>,
    /// True if the command has the terminal whenever `leasehold`'s group would.
    is_for_command: bool,
    /// True from when the command has the terminal until that is taken back. Jobs of its own may have it meanwhile.
    is_lent: Cell<bool>,
    /// True if the command was suspended while it had the terminal, or because it wants it.
    is_owed: Cell<bool>,
    /// True if the command had the terminal when it ended.
    had_terminal: bool,
    command: Pid,
    tree: ProcessTree,
    waits_for_all: bool,
    plan: StopPlan,
    forwarded: ForwardedSignals,
    received: ReceivedSignals,
}

impl Watchdog {
    fn begin(
        mut socket: OrderSocket,
        wake: Wake,
        leasehold: Leasehold,
        program: &Program,
        start: &Start,
    ) -> Result<Self, (OrderSocket, CommandReport)> {
        let clock = SystemClock::new();
        let mut plan = StopPlan::new(start.terms, start.lease_end.into());
        if !plan.may_begin(clock.now()) {
            return Err((socket, CommandReport::TooLate));
        }
        let terminal = Terminal::controlling().map(Arc::new);
        let is_for_command = terminal::is_for_command();
        let given = terminal.clone().filter(|terminal| {
            is_for_command && leasehold.group.is_some_and(|group| terminal.is_with(group))
        });
        let is_lent = Cell::new(given.is_some());
        // To start it is to wait for its exec, however long that takes, and for nothing else. It dies with this process.
        let deadline = process_tree::die_at(plan.kill_by());
        let started = command::start(program, start, given);
        drop(deadline);
        match started {
            Ok(command) => {
                socket.report(&CommandReport::Started { pid: command.as_raw_pid() });
                Ok(Self {
                    socket,
                    wake,
                    clock,
                    leasehold,
                    terminal,
                    is_for_command,
                    is_lent,
                    is_owed: Cell::new(false),
                    had_terminal: false,
                    command,
                    tree: ProcessTree::of(command, Vec::new()),
                    waits_for_all: start.waits_for_all,
                    plan,
                    forwarded: ForwardedSignals::default(),
                    received: ReceivedSignals::from_now_on(),
                })
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or_default();
                Err((socket, CommandReport::NotStarted { errno }))
            }
        }
    }

    fn until_the_end(&mut self) -> CommandEnd {
        loop {
            self.look_after_children();
            if let Some(ended) = self.ended() {
                return ended;
            }
            let look_again = match self.plan.step(self.clock.now()) {
                StopStep::Wait(moment) => moment,
                StopStep::Terminate => self.terminate(),
                StopStep::Kill => self.kill(),
                StopStep::GiveUp => return self.end(self.tree.alive()),
            };
            self.sleep_until(look_again.min(self.forwarded.next()));
            self.obey();
            self.pass_on_signals();
        }
    }

    fn terminate(&mut self) -> Moment {
        self.socket.report(&CommandReport::Stopping);
        // A suspended command would not handle TERM; the lease lasts long enough for it to run.
        self.tree.signal_all(&[Signal::TERM, Signal::CONT]);
        self.clock.now()
    }

    fn kill(&mut self) -> Moment {
        self.tree.signal_all(&[Signal::KILL]);
        self.clock.now().plus(KILL_CHECK_INTERVAL)
    }

    /// The end, if everything that must be over is.
    fn ended(&self) -> Option<CommandEnd> {
        exit_of(self.command)?;
        if self.plan.stopping_since().is_none() {
            let is_waited_for = self.waits_for_all && self.tree.lives() == Some(true);
            return (!is_waited_for).then(|| self.end(self.tree.alive()));
        }
        let over = match self.tree.lives() {
            Some(lives) => !lives,
            // Where living processes cannot be told, only KILL is sure to have ended them; TERM may be ignored.
            None => self.plan.killed(),
        };
        over.then(|| self.end(Vec::new()))
    }

    fn end(&self, left: Vec<i32>) -> CommandEnd {
        let now = self.clock.now();
        let stopped = self
            .plan
            .stopping_since()
            .map(|since| StopResult { killed: self.plan.killed(), took: now.since(since) });
        let (exit, late) = (exit_of(self.command), self.plan.is_over(now));
        let unseen = self.tree.lives().is_none();
        CommandEnd { exit, stopped, late, left, unseen, had_terminal: false }
    }

    fn sleep_until(&mut self, moment: Moment) {
        let socket = (!self.socket.is_closed()).then(|| std::os::fd::AsFd::as_fd(&self.socket));
        self.wake.sleep_until(moment, socket);
    }
}

/// What it is told.
impl Watchdog {
    fn obey(&mut self) {
        while let Some(order) = self.socket.order() {
            match order {
                Order::ConfirmedUntil(moment) => self.plan.confirmed_until(moment.into()),
                Order::Signal(number) => {
                    if let Some(signal) = Signal::from_named_raw(number) {
                        self.forwarded.pass_on(signal, self.clock.now());
                    }
                }
                Order::Continue => self.go_on(),
                Order::Stop => self.plan.stop(self.clock.now()),
                Order::Prepare(_) | Order::Start(_) => {}
            }
        }
        if self.socket.is_closed() {
            self.plan.holder_is_gone(self.clock.now());
        }
    }

    /// What this process has received is read only when it is awake for something else, such as an order: an order comes with each
    /// signal that is passed on.
    fn pass_on_signals(&mut self) {
        let now = self.clock.now();
        while let Some(signal) = self.received.next() {
            if process_tree::shares_control_group(self.command) {
                self.forwarded.received(signal, now);
            }
        }
        for signal in self.forwarded.take_due(now) {
            self.signal(signal);
        }
    }

    /// A command that has ended may have left processes in any group, which `--wait-all` waits for. They are not looked for while the
    /// command is being stopped: that takes time, and `leasehold` waits for the report of the end.
    fn signal(&self, signal: Signal) {
        let may_be_left = self.waits_for_all && self.plan.stopping_since().is_none();
        if may_be_left && exit_of(self.command).is_some() {
            self.tree.signal_all(&[signal]);
        } else {
            self.tree.signal_group(signal);
        }
    }

    fn go_on(&self) {
        // In a pipe it may be a pager's, who goes on with us.
        if (self.is_for_command || self.is_owed.get()) && exit_of(self.command).is_none() {
            self.give_terminal();
        }
        self.signal(Signal::CONT);
    }
}

/// What its children do.
impl Watchdog {
    fn look_after_children(&mut self) {
        // The command keeps its number until the last signal to its group is sent: it is not reaped here.
        process_tree::reap(&[self.command]);
        if let Some(signal) = suspension_of(self.command) {
            self.suspended_by(signal);
        }
        // What it has left may be waited for for long, and the keys of a terminal that the group of a zombie has reach nobody.
        if let (Some(exit), None) = (exit_of(self.command), self.plan.stopping_since()) {
            self.had_terminal |= self.take_terminal_back(matches!(exit, Exit::Signal(_)));
        }
    }

    fn suspended_by(&mut self, signal: Signal) {
        if self.plan.stopping_since().is_some() {
            return self.tree.signal_group(Signal::CONT);
        }
        // It wants the terminal, and it is ours to give.
        let wants_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
        if wants_terminal && self.give_terminal() {
            return self.tree.signal_group(Signal::CONT);
        }
        let had_terminal = self.take_terminal_back(false);
        self.is_owed.set(wants_terminal || had_terminal);
        self.socket.report(&CommandReport::Suspended { signal: signal.as_raw(), had_terminal });
    }

    /// Gives the command the terminal, if `leasehold`'s group has it.
    fn give_terminal(&self) -> bool {
        let (Some(terminal), Some(leasehold)) = (&self.terminal, self.leasehold.group) else {
            return false;
        };
        let ours = terminal.is_with(leasehold);
        if ours {
            terminal.give_to(self.command);
            self.is_lent.set(true);
            self.is_owed.set(false);
        }
        ours
    }

    /// Takes the terminal back from the command, if that has it, or if it has died with one of its jobs; in the modes in which
    /// it was found, if that could not see to it.
    fn take_terminal_back(&self, untidy: bool) -> bool {
        let (Some(terminal), Some(leasehold)) = (&self.terminal, self.leasehold.group) else {
            return false;
        };
        let died_with_it = || {
            process_tree::reap(&[self.command]);
            terminal.is_with_nobody()
        };
        let theirs = terminal.is_with(self.command) || (self.is_lent.get() && died_with_it());
        if theirs {
            terminal.give_to(leasehold);
            self.is_lent.set(false);
            if untidy {
                terminal.restore_modes();
            }
        }
        theirs
    }
}
