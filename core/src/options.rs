use crate::{Error, HolderInfo, LockMode, Result, parse_duration};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How to acquire, and how to hold. Every setter says its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireOptions {
    pub(crate) ttl: Duration,
    pub(crate) wait: Wait,
    pub(crate) mode: LockMode,
    pub(crate) renewed: bool,
    /// The longest lease of a claim until its waiter has seen the grant, and has asked for a whole one.
    pub(crate) max_waiting_ttl: Duration,
    /// True for a step of an acquisition that the store has answered before: what may pass is waited out from the first request on.
    pub(crate) was_answered: bool,
    /// True if an endless wait begins on a store that cannot be reached, too.
    pub(crate) awaits_store: bool,
    pub(crate) max_hold: Duration,
    pub(crate) hold_at_least: Duration,
    pub(crate) holder: Arc<str>,
}

/// How long to wait while another owner holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Wait {
    /// Exactly one attempt. It ends when the store has answered, or with the backend's own time-out, which stands still with
    /// the runtime of the connection.
    No,
    /// Until the lock is free or this time is over, whatever the store does: one deadline covers connecting, queueing
    /// and every request. A store that cannot be reached is asked again for as long. Behind other tasks of its client, a
    /// waiter asks for the first time after half of this time at the latest.
    UpTo(Duration),
    /// Until the lock is free. A store that cannot be reached at first is an error at once; one that goes away later
    /// is waited for, and so is one that refuses later, for instance while its password is changed.
    #[default]
    Forever,
}

impl Wait {
    /// The time of a limited wait, zero for the others.
    pub(crate) fn time(self) -> Duration {
        match self {
            Self::UpTo(time) => time,
            Self::No | Self::Forever => Duration::ZERO,
        }
    }
}

impl AcquireOptions {
    /// The shortest lease. Below it, the drift allowance and one round trip eat the lease up.
    pub const MIN_TTL: Duration = Duration::from_millis(50);
    /// The longest lease: what a crashed holder can cost.
    pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
    /// The default lease: 30 s, as in Redisson and `DistributedLock` for .NET.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The length of the lease, from 50 ms to 24 h, rounded up to whole milliseconds: how long a crashed holder keeps
    /// others out. Default: 30 s.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long to wait for a lock that is held; a `Duration` of zero is one attempt, `Duration::MAX` is for ever.
    /// Default: for ever.
    #[must_use]
    pub fn with_wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = wait.into();
        self
    }

    /// The kind of hold. Default: [`Exclusive`](LockMode::Exclusive). A store that does not declare
    /// [`Sharing`](crate::Sharing) refuses the others with [`Unsupported`](crate::ErrorKind::Unsupported).
    #[must_use]
    pub fn with_mode(mut self, mode: LockMode) -> Self {
        self.mode = mode;
        self
    }

    /// Makes the lease a fixed one: it is not renewed, and ends one ttl after the grant unless the holder calls
    /// [`extend`](crate::LockGuard::extend). Default: renewed at a third of the ttl for as long as the guard lives.
    #[must_use]
    pub fn with_fixed_lease(mut self) -> Self {
        self.renewed = false;
        self
    }

    /// The longest hold: after this time the lock is lost with [`MaxHold`](crate::LossCause::MaxHold), however healthy the
    /// renewals are. Default: no limit.
    ///
    /// Renewals end then, and with them the store's lease, or its limit for a silent connection (`mode=for-update`). On
    /// ZooKeeper a hold is a part of a session that the whole process shares: the lock is free when the guard is dropped.
    #[must_use]
    pub fn with_max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = max_hold;
        self
    }

    /// Keeps others out for at least this time after the grant, even if the guard is released earlier. For periodic
    /// jobs that are shorter than the difference between the clocks that start them. At most 24 h. Default: zero.
    ///
    /// Not promised for a lease that ended before its release. A lease is left to end by itself, so the release returns at
    /// once. Where a hold is a session or a connection (ZooKeeper, `mode=for-update`) the release waits for the rest of the
    /// time, and if this process ends before, so does the hold.
    #[must_use]
    pub fn with_hold_at_least(mut self, hold_at_least: Duration) -> Self {
        self.hold_at_least = hold_at_least;
        self
    }

    /// The description of this holder that others see, at most [`HolderInfo::MAX_BYTES`]. Default: user, host, process id, program.
    #[must_use]
    pub fn with_holder(mut self, holder: &HolderInfo) -> Self {
        self.holder = holder.to_json().into();
        self
    }

    /// The length of the lease.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The kind of hold.
    pub fn mode(&self) -> LockMode {
        self.mode
    }

    /// How long to wait.
    pub fn wait(&self) -> Wait {
        self.wait
    }

    /// True if the lease is renewed for as long as the guard lives, false if it is a fixed one.
    pub fn is_renewed(&self) -> bool {
        self.renewed
    }

    /// The longest hold; [`Duration::MAX`] if there is no limit.
    pub fn max_hold(&self) -> Duration {
        self.max_hold
    }

    /// The least time for which others are kept out; zero if a release frees the lock at once.
    pub fn hold_at_least(&self) -> Duration {
        self.hold_at_least
    }

    /// Checks the options as every acquisition does before any I/O; [`Invalid`](crate::ErrorKind::Invalid), naming the field,
    /// the value and the limit.
    pub fn check(&self) -> Result<()> {
        check_ttl(self.ttl)?;
        let (at_least, max_hold, max) = (self.hold_at_least, self.max_hold, Self::MAX_TTL);
        if max_hold.is_zero() {
            return Err(Error::invalid("max_hold", "it is zero", "give it a time, or leave it out"));
        }
        if at_least > max {
            let problem = format_args!("{at_least:?}, limit {max:?}");
            return Err(Error::invalid("hold_at_least", problem, "shorten it"));
        }
        if at_least > max_hold {
            let problem = format_args!("{at_least:?} is longer than max_hold {max_hold:?}");
            return Err(Error::invalid("hold_at_least", problem, "make it the shorter of the two"));
        }
        if self.holder.len() > HolderInfo::MAX_BYTES {
            let problem = format_args!("{} bytes, limit {}", self.holder.len(), HolderInfo::MAX_BYTES);
            return Err(Error::invalid("holder info", problem, "shorten its text and labels"));
        }
        Ok(())
    }
}

pub(crate) fn check_ttl(ttl: Duration) -> Result<()> {
    let (min, max) = (AcquireOptions::MIN_TTL, AcquireOptions::MAX_TTL);
    if ttl < min {
        return Err(Error::invalid("ttl", format_args!("{ttl:?}, at least {min:?}"), "lengthen it"));
    }
    if ttl > max {
        let fix = "shorten it: a lease that is renewed need not outlast the work";
        return Err(Error::invalid("ttl", format_args!("{ttl:?}, at most {max:?}"), fix));
    }
    Ok(())
}

/// Rounded up: stores keep milliseconds, and a lease is never shorter than was asked.
pub(crate) fn whole_millis(ttl: Duration) -> Duration {
    Duration::from_millis(u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

impl Default for AcquireOptions {
    fn default() -> Self {
        // Looked up once: the host name costs a system call, and acquiring is the fast path.
        static THIS_PROCESS: OnceLock<Arc<str>> = OnceLock::new();
        let holder = THIS_PROCESS.get_or_init(|| HolderInfo::this_process().to_json().into());
        Self {
            ttl: Self::DEFAULT_TTL,
            wait: Wait::default(),
            mode: LockMode::default(),
            renewed: true,
            max_waiting_ttl: Duration::MAX,
            was_answered: false,
            awaits_store: false,
            max_hold: Duration::MAX,
            hold_at_least: Duration::ZERO,
            holder: Arc::clone(holder),
        }
    }
}

/// `forever`, `0` or `no`, or a duration with its unit, such as `1m 30s`.
impl FromStr for Wait {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "forever" => Ok(Self::Forever),
            "no" | "0" => Ok(Self::No),
            time => parse_duration("wait", time)
                .map(Self::from)
                .map_err(|error| error.with_help("write forever, 0, or a time like 30s")),
        }
    }
}

impl From<Duration> for Wait {
    fn from(time: Duration) -> Self {
        match time {
            Duration::ZERO => Self::No,
            Duration::MAX => Self::Forever,
            time => Self::UpTo(time),
        }
    }
}

#[cfg(test)]
mod tests;
