use leasehold::client::Moment;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

/// What the watchdog sleeps on: its children, its socket, and the clock.
#[derive(Debug)]
pub(super) struct Wake {
    children: UnixStream,
    alarm: Alarm,
}

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        let (children, signalled) = UnixStream::pair()?;
        children.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, signalled)?;
        Ok(Self { children, alarm: Alarm::new()? })
    }

    /// Sleeps until something happens to a child, something is heard on `socket`, or the moment has come. May wake
    /// early.
    pub(super) fn sleep_until(&mut self, moment: Moment, socket: Option<BorrowedFd<'_>>) {
        let timeout = self.alarm.set(moment);
        let mut events = vec![PollFd::new(&self.children, PollFlags::IN)];
        events.extend(self.alarm.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        events.extend(socket.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let _ = poll(&mut events, timeout.as_ref());
        let mut buffer = [0; 64];
        while matches!(self.children.read(&mut buffer), Ok(64)) {}
    }
}

#[cfg(target_os = "linux")]
use timer::Alarm;

/// A timer of the clock that leases are counted on. It goes off in the moment in which a suspended host wakes up; the
/// time-out of `poll` would go on sleeping for what it had left before.
#[cfg(target_os = "linux")]
mod timer {
    use super::{BorrowedFd, Moment, io};
    use rustix::event::Timespec;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
    };
    use std::os::fd::{AsFd, OwnedFd};

    #[derive(Debug)]
    pub(super) struct Alarm(OwnedFd);

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            Ok(Self(timerfd_create(TimerfdClockId::Boottime, flags)?))
        }

        pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.0.as_fd())
        }

        pub(super) fn set(&self, moment: Moment) -> Option<Timespec> {
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let it_value = if moment == Moment::NEVER {
                none
            } else {
                let since_boot = moment.since(Moment::ORIGIN);
                Timespec {
                    tv_sec: i64::try_from(since_boot.as_secs()).unwrap_or(i64::MAX),
                    // A timer that is set to zero is switched off.
                    tv_nsec: i64::from(since_boot.subsec_nanos().max(1)),
                }
            };
            let time = Itimerspec { it_interval: none, it_value };
            let failed = timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &time).is_err();
            failed.then_some(none)
        }
    }
}

#[cfg(not(target_os = "linux"))]
use timeout::Alarm;

#[cfg(not(target_os = "linux"))]
mod timeout {
    use super::{BorrowedFd, Moment, io};
    use leasehold::client::{Clock, SystemClock};
    use rustix::event::Timespec;
    use std::time::Duration;

    /// How late it may notice that the host was suspended.
    const NOTICE_SUSPEND: Duration = Duration::from_secs(1);

    #[derive(Debug)]
    pub(super) struct Alarm;

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        pub(super) fn set(&self, moment: Moment) -> Option<Timespec> {
            let left = moment.since(SystemClock::new().now()).min(NOTICE_SUSPEND);
            Timespec::try_from(left).ok()
        }
    }
}
