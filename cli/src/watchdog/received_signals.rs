//! The signals that come to the watchdog, which has all of them blocked.

#[cfg(target_os = "linux")]
pub(super) use linux::ReceivedSignals;
#[cfg(not(target_os = "linux"))]
pub(super) use unknown::ReceivedSignals;

#[cfg(target_os = "linux")]
mod linux {
    use nix::sys::signal::{SigSet, Signal as Blocked};
    use nix::sys::signalfd::{SfdFlags, SignalFd};
    use rustix::process::Signal;

    /// `None` for lack of a descriptor: then every signal is passed on.
    #[derive(Debug)]
    pub(in crate::watchdog) struct ReceivedSignals(Option<SignalFd>);

    impl ReceivedSignals {
        /// Those from now on. A signal from before did not reach the command, which was not there; one between its start and here may
        /// reach it twice.
        pub(in crate::watchdog) fn from_now_on() -> Self {
            let mut blocked = SigSet::all();
            blocked.remove(Blocked::SIGCHLD);
            let signals = SignalFd::with_flags(&blocked, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
            let this = Self(signals.ok());
            while this.next().is_some() {}
            this
        }

        /// The next that has come.
        pub(in crate::watchdog) fn next(&self) -> Option<Signal> {
            let information = self.0.as_ref()?.read_signal().ok()??;
            // A real-time signal has no name and is never passed on: it is read as one that is not passed on either.
            let number = i32::try_from(information.ssi_signo).ok()?;
            Signal::from_named_raw(number).or(Some(Signal::CONT))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod unknown {
    use rustix::process::Signal;

    #[derive(Debug)]
    pub(in crate::watchdog) struct ReceivedSignals;

    impl ReceivedSignals {
        pub(in crate::watchdog) fn from_now_on() -> Self {
            Self
        }

        pub(in crate::watchdog) fn next(&self) -> Option<Signal> {
            None
        }
    }
}
