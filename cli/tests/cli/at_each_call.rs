//! Killed or stopped at any of its system calls, neither `leasehold` nor the watchdog lets the command outlive the lock.
//!
//! The other tests play the moments that somebody has thought of; these play all of them, by holding the process at one call
//! after the other (`ptrace(2)`).

use crate::support::{Place, Process, Running, Traced, until};
use rustix::process::Signal;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// So many calls after it is known that the command runs, nothing of its start is left to be done.
const BEYOND: usize = 24;

/// How many runs are played at once, in all tests together: they wait most of their time, but the process that kills a command
/// must get a processor in time.
const AT_ONCE: usize = 10;

static RUNS: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy, Debug)]
enum Target {
    Leasehold,
    Watchdog,
}

#[test]
fn leasehold_killed_while_it_starts_the_command() {
    at_each_call(2, |call| TracedRun::starting(&["x"], Target::Leasehold, call).map(TracedRun::killed));
}

#[test]
fn leasehold_killed_while_it_starts_the_command_of_another_kind() {
    at_each_call(4, |call| {
        TracedRun::starting(&["--shared", "x"], Target::Leasehold, call).map(TracedRun::killed)
    });
    at_each_call(4, |call| TracedRun::starting(&["x", "y"], Target::Leasehold, call).map(TracedRun::killed));
}

#[test]
fn watchdog_stopped_while_it_starts_the_command_of_another_kind() {
    let stopped = |kind: &'static [&str]| {
        at_each_call(4, |call| {
            TracedRun::starting(kind, Target::Watchdog, call).map(TracedRun::without_watchdog)
        });
    };
    stopped(&["--shared", "x"]);
    stopped(&["x", "y"]);
}

#[test]
fn watchdog_killed_while_it_starts_the_command() {
    at_each_call(2, |call| {
        TracedRun::starting(&["x"], Target::Watchdog, call).map(TracedRun::killed_watchdog)
    });
}

#[test]
fn leasehold_stopped_while_it_starts_the_command() {
    at_each_call(4, |call| TracedRun::starting(&["x"], Target::Leasehold, call).map(TracedRun::stopped));
}

#[test]
fn watchdog_stopped_while_it_starts_the_command() {
    at_each_call(4, |call| {
        TracedRun::starting(&["x"], Target::Watchdog, call).map(TracedRun::without_watchdog)
    });
}

#[test]
fn leasehold_killed_while_a_lost_lock_stops_the_command() {
    at_each_call(4, |call| TracedRun::stopping(Target::Leasehold, call).map(TracedRun::killed_too_late));
}

/// The most of its calls are looks at other processes.
#[test]
fn watchdog_killed_while_it_stops_the_command() {
    at_each_call(17, |call| TracedRun::stopping(Target::Watchdog, call).map(TracedRun::killed_too_late));
}

/// Plays every `stride`th stop, until there are no more. A call has two, at its beginning and at its end, and from there to the next one
/// nothing happens that other processes see: of two stops one is enough.
fn at_each_call(stride: usize, play: impl Fn(usize) -> Option<()> + Sync) {
    let next = AtomicUsize::new(0);
    let play_one = || {
        let _permit = RunPermit::take();
        play(next.fetch_add(stride, Relaxed))
    };
    let play_some = || while play_one().is_some() {};
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(play_some);
        }
    });
    let played = next.into_inner() / stride;
    assert!(played > 2 * AT_ONCE, "only {played} calls: nothing was followed");
}

/// Permission for one run.
struct RunPermit;

static FREE: Mutex<usize> = Mutex::new(AT_ONCE);
static FREED: Condvar = Condvar::new();

impl RunPermit {
    fn take() -> Self {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        *FREED.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner) -= 1;
        Self
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        *FREE.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        FREED.notify_one();
    }
}

/// A command, with a child, that ignores TERM, and `leasehold` or its watchdog held at a system call.
struct TracedRun {
    place: Place,
    run: Running,
    traced: Traced,
    mark: String,
}

impl TracedRun {
    /// Before the lock is free. With its holder.
    fn waiting(kind: &[&str], target: Target) -> (Self, Running) {
        let place = Place::new();
        let holder = place.hold("x");
        // A time to sleep, and one that nobody else sleeps for.
        let mark = format!("1000.{:08}{:06}", std::process::id(), RUNS.fetch_add(1, Relaxed));
        let script = format!("trap '' TERM; sleep {mark} & echo up; while :; do sleep {mark}; done");
        let options = ["-v", "run", "--ttl", "1s", "--grace", "20ms"];
        let run = place.start([&options[..], kind, &["--", "sh", "-c", &script]].concat());
        let watchdog = run.watchdog();
        let traced = Traced::hold(match target {
            Target::Leasehold => run.process(),
            Target::Watchdog => watchdog,
        });
        (Self { place, run, traced, mark }, holder)
    }

    /// At a call from where it may have the lock on. `None` if the command has run for a while by then.
    fn starting(kind: &[&str], target: Target, call: usize) -> Option<Self> {
        let (mut traced_run, mut holder) = Self::waiting(kind, target);
        holder.end_input();
        holder.wait().code(0);
        let mut beyond = 0;
        for _ in 0..call {
            beyond += usize::from(traced_run.run.has_warned("started pid "));
            if beyond > BEYOND || !traced_run.traced.go_to_next_call() {
                return None;
            }
        }
        Some(traced_run)
    }

    /// At a call from where the lock is taken away on. `None` if it has ended by then.
    fn stopping(target: Target, call: usize) -> Option<Self> {
        let (mut traced_run, mut holder) = Self::waiting(&["x"], target);
        holder.end_input();
        holder.wait().code(0);
        while !traced_run.run.has_warned("started pid ") {
            assert!(traced_run.traced.go_to_next_call());
        }
        traced_run.run.line("up");
        traced_run.place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
        (0..call).all(|_| traced_run.traced.go_to_next_call()).then_some(traced_run)
    }

    fn killed(mut self) {
        until("its command has a child, if it has begun", || {
            self.run.has_printed("up") || Process::marked(&self.mark).is_empty()
        });
        self.traced.kill();
        self.passes_on();
    }

    /// A watchdog that was killed before the order to start is replaced: then `leasehold` is killed under the next one.
    fn killed_watchdog(mut self) {
        until("its command has a child, if it has begun", || {
            self.run.has_printed("up") || Process::marked(&self.mark).is_empty()
        });
        self.traced.kill();
        until("leasehold has ended, or has another watchdog", || {
            !self.run.is_running() || self.run.process().child().is_some_and(Process::is_watchdog)
        });
        if self.run.is_running() {
            self.run.signal(Signal::KILL);
        }
        self.passes_on();
    }

    fn stopped(self) {
        self.passes_on();
    }

    /// A command that may have been started is stopped; one that is known to run has the lock until that is taken away.
    fn without_watchdog(self) {
        until("it is over, or known to run", || {
            self.run.has_warned("started pid ") || !self.place.is_held("x")
        });
        if !self.run.has_warned("started pid ") {
            return self.passes_on();
        }
        self.place.say(["-q", "release", "--force", "--yes", "x"]);
        self.is_stopped();
    }

    fn killed_too_late(mut self) {
        self.traced.kill();
        self.is_stopped();
    }

    /// The lock goes on to the next holder, and when that has it nothing of the command lives.
    fn passes_on(&self) {
        let _next = self.place.hold("x");
        assert_eq!(Process::marked(&self.mark), []);
    }

    /// After the lock was taken away, all processes of the command end sooner or later.
    fn is_stopped(&self) {
        until("nothing of it lives", || Process::marked(&self.mark).is_empty());
    }
}

/// With both gone in one stroke, what the command has started is on its own.
impl Drop for TracedRun {
    fn drop(&mut self) {
        self.traced.kill();
        loop {
            let left = Process::marked(&self.mark);
            left.iter().for_each(|process| process.try_signal(Signal::KILL));
            if left.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
