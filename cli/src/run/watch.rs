//! While the command runs: every confirmation of the lease goes on to the watchdog, every signal to the command, and
//! every loss ends it.

use super::supervisor::Supervisor;
use crate::terminal::{self, Terminal};
use crate::watchdog::protocol::{CommandEnd, CommandReport, Order};
use crate::watchdog::stop_plan::{OnLost, Terms};
use leasehold::client::{Clock, Moment, SystemClock};
use leasehold::{Lease, Loss};
use leasehold_console::signals::{Signals, suspend};
use leasehold_console::{Console, brief};
use rustix::process::{Pid, Signal};
use std::time::Duration;

/// Time to read the reports that have arrived.
const READ_TIMEOUT: Duration = Duration::from_millis(10);
/// The least time between two looks at the lease.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// How the command came to its end.
#[derive(Debug)]
pub(super) enum End {
    /// By itself, or by being stopped.
    Ended(CommandEnd),
    /// The watchdog was killed, and we have killed the command. Or whom we could not kill, as far as that can be told.
    WithoutWatchdog(Result<(), Vec<i32>>),
}

impl End {
    /// True if the command was stopped, by the watchdog.
    pub(super) fn was_stopped(&self) -> bool {
        matches!(self, Self::Ended(ended) if ended.stopped.is_some())
    }

    /// True if something of the command lives that should not.
    pub(super) fn has_survivors(&self) -> bool {
        match self {
            Self::Ended(ended) => ended.stopped.is_some() && !ended.left.is_empty(),
            Self::WithoutWatchdog(killed) => killed.is_err(),
        }
    }
}

/// The source of a SIGINT, if one came. The terminal counts more than a signal to us alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InterruptSource {
    None,
    /// The terminal, because our own group has it, and with us the command.
    Terminal,
    /// A signal to us alone: a terminal that the command has signals only the command for its keys.
    Signal,
}

impl InterruptSource {
    fn now() -> Self {
        if terminal::is_ours() { Self::Terminal } else { Self::Signal }
    }
}

/// Looks after a command that runs.
pub(super) struct Watch<'a> {
    pub(super) supervisor: &'a mut Supervisor,
    pub(super) signals: &'a mut Signals,
    pub(super) terminal: Option<&'a Terminal>,
    /// Its process group too.
    pub(super) command: Option<Pid>,
    /// The names of the locks, for messages.
    pub(super) locks: String,
    pub(super) lease: Lease,
    pub(super) terms: Terms,
    /// The end of the lease, as far as the watchdog knows.
    pub(super) lease_end: Moment,
    pub(super) console: Console,
    pub(super) interrupted: InterruptSource,
    /// True once a signal came that asks a service to end, and not to be started again.
    pub(super) is_told_to_end: bool,
    /// False from when we have suspended ourselves until somebody continues us.
    pub(super) is_continued: bool,
}

impl Watch<'_> {
    /// Answers when the command is over.
    pub(super) async fn until_the_end(&mut self) -> End {
        let lease = self.lease.clone();
        let mut lost = std::pin::pin!(lease.lost());
        let mut stopping = false;
        let clock = SystemClock::new();
        let mut look_at = clock.now();
        loop {
            let last_resort = self.last_resort();
            tokio::select! {
                biased;
                signal = self.signals.next() => self.hear(signal),
                report = self.supervisor.report() => match report {
                    Some(CommandReport::Ended(ended)) => return End::Ended(ended),
                    Some(CommandReport::Suspended { signal, had_terminal }) => self.suspended(signal, had_terminal),
                    Some(CommandReport::Stopping) if !stopping => self.say_stopping(),
                    Some(_) => {}
                    None => return self.without_watchdog().await,
                },
                loss = &mut lost, if !stopping => {
                    stopping = true;
                    if let Some(ended) = self.stop(&loss).await {
                        return End::Ended(ended);
                    }
                }
                () = last_resort, if self.terms.on_lost != OnLost::Warn => return self.late().await,
                () = clock.sleep_until(look_at), if !stopping => {
                    self.confirm();
                    let stop_at = self.terms.stop_at(self.lease_end);
                    look_at = next_look(clock.now(), stop_at, self.terms.reserve);
                }
            }
        }
    }

    /// Tells the watchdog how long the lease lasts by now.
    fn confirm(&mut self) {
        let lease_end = end_of(&self.lease);
        if lease_end > self.lease_end.plus(self.terms.reserve / 2) {
            self.lease_end = lease_end;
            self.supervisor.order(&Order::ConfirmedUntil(lease_end.into()));
        }
    }

    /// Has the command stopped, and says so; unless it is over, which is answered then.
    async fn stop(&mut self, loss: &Loss) -> Option<CommandEnd> {
        let locks = lost_names(loss, &self.locks);
        if self.terms.on_lost == OnLost::Warn {
            let help = "--on-lost warn: the command goes on, and may run beside the next holder's";
            self.console.alarm(format_args!("lock {locks} was lost: {loss}"), help);
            return None;
        }
        self.supervisor.order(&Order::Stop);
        let ended = self.ended_meanwhile(READ_TIMEOUT).await;
        if ended.is_none() {
            self.console.note(format_args!("lock {locks} was lost: {loss}; stopping the command"));
        }
        ended
    }

    fn say_stopping(&self) {
        let left = brief(self.lease.remaining());
        let locks = &self.locks;
        self.console.note(format_args!("the lease of {locks} ends in {left}; stopping the command"));
    }

    pub(super) fn hear(&mut self, signal: Signal) {
        if signal != Signal::CONT {
            self.is_told_to_end |= [Signal::TERM, Signal::INT, Signal::QUIT].contains(&signal);
            if signal == Signal::INT && self.interrupted != InterruptSource::Terminal {
                self.interrupted = InterruptSource::now();
            }
            return self.supervisor.order(&Order::Signal(signal.as_raw()));
        }
        self.is_continued = true;
        self.go_on();
    }

    fn go_on(&mut self) {
        // We may have been stopped, and for how long? The lease first; the command was perhaps stopped too.
        let is_held = self.lease.is_held();
        if is_held {
            self.confirm();
        }
        // A command that lost its lock is being stopped and must not run again, except under `--on-lost warn`.
        if is_held || self.terms.on_lost == OnLost::Warn {
            self.supervisor.order(&Order::Continue);
        }
    }

    /// The command was suspended. As a part of a shell's job so are we, and nobody renews then.
    fn suspended(&mut self, signal: i32, had_terminal: bool) {
        let by_terminal = [Signal::TSTP, Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal);
        let in_a_shell = had_terminal || (by_terminal && Terminal::controlling().is_some());
        if !in_a_shell {
            return self.console.detail("the command was suspended; the lock stays held");
        }
        let wants_terminal = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal);
        if wants_terminal && !self.is_continued {
            // The kernel suspends no group that no shell could continue, as of a job that has outlived its shell. To go on would
            // be to ask again at once.
            let what = "the command was suspended because it wants the terminal, and nobody is there who could give it";
            let help = "the lock stays held: end the command, or continue it at a terminal";
            return self.console.warn(what, Some(help));
        }
        let left = brief(self.lease.remaining());
        let then = match self.terms.on_lost {
            OnLost::Warn => format!("is lost in {left}"),
            _ => format!("the command is stopped before its lease ends in {left}"),
        };
        self.console.note(format_args!("suspended: the lock is not renewed, and {then}"));
        self.is_continued = false;
        suspend();
        self.go_on();
    }

    /// Ends when the watchdog should long have done its work.
    fn last_resort(&self) -> impl Future<Output = ()> + use<> {
        let half = self.terms.reserve / 2;
        let late = end_of(&self.lease).max(self.lease_end).since(Moment::ORIGIN).saturating_sub(half);
        SystemClock::new().sleep_until(Moment::since_origin(late))
    }

    async fn late(&mut self) -> End {
        match self.ended_meanwhile(self.terms.reserve / 4).await {
            Some(ended) => End::Ended(ended),
            None => self.without_watchdog().await,
        }
    }

    /// The watchdog's last report, if it has done its work while we were the one who was stopped: then it is here already.
    async fn ended_meanwhile(&mut self, patience: Duration) -> Option<CommandEnd> {
        let reports = async {
            loop {
                match self.supervisor.report().await {
                    Some(CommandReport::Ended(ended)) => return Some(ended),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        tokio::time::timeout(patience, reports).await.ok().flatten()
    }

    async fn without_watchdog(&mut self) -> End {
        let patience = self.lease_end.since(SystemClock::new().now()).max(Duration::from_secs(1));
        let killed = self.supervisor.kill(patience).await;
        if let Some(terminal) = self.terminal {
            terminal.take_back_from(self.command);
        }
        End::WithoutWatchdog(killed)
    }
}

/// The names to blame for a loss: of a set, one lock.
pub(super) fn lost_names(loss: &Loss, locks: &str) -> String {
    loss.lock().map_or_else(|| locks.to_owned(), |name| format!("{name:?}"))
}

/// When to look again how long the lease lasts: once in a reserve, and the sooner the nearer the stop is. Otherwise a renewal
/// that succeeds shortly before it would come too late, because nobody has looked.
fn next_look(now: Moment, stop_at: Moment, reserve: Duration) -> Moment {
    match stop_at.since(now) {
        Duration::ZERO => now.plus(reserve),
        left => now.plus((left / 2).min(reserve).max(LOOK_INTERVAL)),
    }
}

/// When the lease ends, as far as it is confirmed. The clock is read before the lease is, so that the sum does not come
/// out too late.
pub(super) fn end_of(lease: &Lease) -> Moment {
    let now = SystemClock::new().now();
    now.plus(lease.remaining())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::since_origin(Duration::from_millis(millis))
    }

    /// A renewal may succeed at any moment before the stop, and the watchdog is to hear of it.
    #[test]
    fn last_look_comes_right_before_the_stop() {
        for (stop_at, reserve) in [(23_700, 1_000), (5_000, 625), (7_777, 400), (60, 10)] {
            let reserve = Duration::from_millis(reserve);
            let (mut now, mut looks) = (at(0), 0);
            loop {
                let next = next_look(now, at(stop_at), reserve);
                assert!(next.since(now) <= reserve && next.since(now) >= LOOK_INTERVAL);
                if next >= at(stop_at) {
                    break;
                }
                (now, looks) = (next, looks + 1);
            }
            assert!(at(stop_at).since(now) <= LOOK_INTERVAL, "{now:?} of {stop_at}");
            assert!(looks <= stop_at / reserve.as_millis() as u64 + 12, "{looks} looks");
        }
    }

    #[test]
    fn look_after_the_stop_comes_once_in_a_reserve() {
        assert_eq!(next_look(at(500), at(500), Duration::from_secs(1)), at(1_500));
        assert_eq!(next_look(at(900), at(500), Duration::from_secs(1)), at(1_900));
    }
}
