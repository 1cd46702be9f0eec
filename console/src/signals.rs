//! The signals that `leasehold` hears.

use crate::Failure;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal as Number, sigaction};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::flag;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::signal::unix::{self, SignalKind};

/// What is heard, in the order in which it is looked at. To go on comes first: after a pause, nothing is done before
/// the lease was looked at.
const HEARD: [Signal; 9] = [
    Signal::CONT,
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::TSTP,
];

/// The signals that reach this process, from now on.
#[derive(Debug)]
pub struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    /// The number of the later one of TSTP and CONT, as their handlers ran.
    last: Arc<AtomicUsize>,
    ended_by: Option<Signal>,
    /// The signals that have no effect on this verb.
    ignored: &'static [Signal],
}

impl Signals {
    /// Listens. What was ignored when this process was started, as HUP is under nohup, stays ignored, here and in the
    /// command.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor for it.
    pub fn listen() -> Result<Self, Failure> {
        Self::open().map_err(|error| Failure::internal("cannot listen to signals", error))
    }

    fn open() -> io::Result<Self> {
        let ignored = ignored_at_start();
        let (mut streams, last) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
        for signal in HEARD {
            if !ignored.contains(signal) {
                // Before the stream, whose handler wakes whoever looks at this.
                if let (Signal::TSTP | Signal::CONT, number) = (signal, signal.as_raw()) {
                    flag::register_usize(number, Arc::clone(&last), number.unsigned_abs() as usize)?;
                }
                streams.push((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
            }
        }
        // SIGCHLD may be ignored from before the exec, and the kernel would then drop the exit status of our children.
        drop(unix::signal(SignalKind::child())?);
        Ok(Self { streams, last, ended_by: None, ignored: &[] })
    }

    /// From now on these do not ask to end: they are for a command, and none may run. [`next`](Self::next) answers them all the same.
    pub fn ignore(&mut self, ignored: &'static [Signal]) {
        self.ignored = ignored;
    }

    /// True if this signal asks to end.
    pub fn ends(&self, signal: Signal) -> bool {
        ends(signal) && !self.ignored.contains(&signal)
    }

    /// Counts signals that were for a command which did not start: the first that asks to end is as one that ended a wait.
    pub fn end_by(&mut self, heard: &[Signal]) {
        self.ended_by = self.ended_by.or(heard.iter().copied().find(|signal| self.ends(*signal)));
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            let heard =
                HEARD.into_iter().find(|signal| self.has_heard(*signal, cx) && !self.is_over(*signal));
            heard.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// True for a TSTP that a CONT followed. The kernel, too, discards the earlier one while it is pending (signal(7)): else this
    /// process would be suspended for ever.
    fn is_over(&self, signal: Signal) -> bool {
        signal == Signal::TSTP
            && self.last.load(Ordering::Relaxed) == Signal::CONT.as_raw().unsigned_abs() as usize
    }

    fn has_heard(&mut self, signal: Signal, cx: &mut Context<'_>) -> bool {
        let mut streams = self.streams.iter_mut();
        let stream = streams.find(|(heard, _)| *heard == signal);
        stream.is_some_and(|(_, stream)| stream.poll_recv(cx).is_ready())
    }

    /// Waits for this, unless a signal asks to end: then it is dropped, and the signal is the answer.
    pub async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Signal> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                signal = self.next() => match signal {
                    Signal::TSTP => suspend(),
                    signal if self.ends(signal) => {
                        self.ended_by = Some(signal);
                        return Err(signal);
                    }
                    _ => {}
                },
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Ends to listen, for a program that takes the place of this one: from now on a signal does what it does by default. Answers one that
    /// came before and asks to end.
    pub async fn stop_listening(&mut self) -> Option<Signal> {
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        for number in self.streams.iter().filter_map(|(signal, _)| Number::try_from(signal.as_raw()).ok()) {
            #[allow(
                unsafe_code,
                reason = "a handler could run at any moment; the default runs none of our code"
            )]
            // SAFETY: as above.
            let _ = unsafe { sigaction(number, &default) };
        }
        // The runtime reads what the handlers have written while this yields.
        self.unless_ended(tokio::task::yield_now()).await.err()
    }

    /// The last signal that ended a wait of [`unless_ended`](Self::unless_ended).
    pub fn ended_by(&self) -> Option<Signal> {
        self.ended_by
    }
}

/// Lets a write beyond the limit of file sizes fail, instead of ending this process. A command that is started has the default
/// again, since a handler does not outlive `execve(2)`.
pub fn survive_the_limit_of_file_sizes() {
    let number = Signal::XFSZ.as_raw();
    if !ignored_at_start().contains(Signal::XFSZ) {
        // Without a handler the signal ends the process, as it would have.
        let _ = flag::register(number, Arc::default());
    }
}

/// Suspends this process and its whole group, as the terminal would have: whoever called us, and whoever is in the same
/// pipe. Returns when it is continued.
///
/// By the signal that the terminal sends, with our handler out of its way, and not by STOP: the kernel then does not
/// suspend a group that no shell could continue, such as what `ssh -t` or a container has started.
pub fn suspend() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    #[allow(
        unsafe_code,
        reason = "a handler could run at a moment in which nothing may be done; the default runs none of our code, and \
                  what is put back is what was there"
    )]
    // SAFETY: as above.
    unsafe {
        let ours = sigaction(Number::SIGTSTP, &default);
        let _ = kill_current_process_group(Signal::TSTP);
        if let Ok(ours) = ours {
            let _ = sigaction(Number::SIGTSTP, &ours);
        }
    }
}

/// True if this signal asks to end.
pub fn ends(signal: Signal) -> bool {
    !matches!(signal, Signal::CONT | Signal::WINCH | Signal::TSTP)
}

/// The set of ignored signals, as `proc_pid_status(5)` has it. Empty where there is none to read.
struct Ignored(u64);

fn ignored_at_start() -> Ignored {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    Ignored(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default())
}

impl Ignored {
    fn contains(&self, signal: Signal) -> bool {
        self.0 >> (signal.as_raw() - 1) & 1 == 1
    }
}
