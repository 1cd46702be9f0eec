//! The clock that all processes of a host share, and the boot that it counts from.

use leasehold_core::{Clock, Error, ErrorKind, FencingToken, Moment, Result, SystemClock};
use rustix::fs::{PROC_SUPER_MAGIC, statfs};
use std::fs::{read_link, read_to_string};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const LAST_TOKEN: i64 = FencingToken::MAX_COUNTED as i64;
/// How far apart the clocks of two processors may be at most. Much more than they are, much less than a boot takes.
const BETWEEN_PROCESSORS: i64 = 1_000_000;

/// `CLOCK_BOOTTIME` as the host counts it, and the host's boot.
#[derive(Clone, Debug)]
pub(super) struct HostClock {
    clock: Arc<dyn Clock>,
    wall: fn() -> SystemTime,
    /// How far the clock of this process's time namespace is ahead of the host's, in microseconds.
    ahead: i64,
    boot: Option<Arc<str>>,
}

/// A point in time, in microseconds of the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostTime(pub(super) i64);

impl HostClock {
    pub(super) fn of_this_host() -> Result<Self> {
        Ok(Self {
            clock: Arc::new(SystemClock::new()),
            wall: SystemTime::now,
            ahead: time_namespace_offset().map_err(|error| {
                Error::new(
                    ErrorKind::Unsupported,
                    "cannot tell the host's clock, on which leases are counted",
                )
                .with_source(error)
                .with_help("mount /proc, and take locks in the time namespace that the process runs in")
            })?,
            boot: boot_id(),
        })
    }

    /// Now. Read before a statement is sent, never after: a lease that is found over then is over, and one that is
    /// counted from then ends no later for its holder than for other processes.
    pub(super) fn now(&self) -> HostTime {
        HostTime(micros(self.clock.now().since(Moment::ORIGIN)).saturating_sub(self.ahead))
    }

    /// The wall clock, in microseconds since 1970. For tokens and for people, never for a lease. One if it shows a time
    /// that is no token: before 1970, or after 2255.
    pub(super) fn unix_micros(&self) -> i64 {
        let time = (self.wall)().duration_since(SystemTime::UNIX_EPOCH);
        let time = micros(time.unwrap_or_default());
        if (1..=LAST_TOKEN).contains(&time) { time } else { 1 }
    }

    /// The boot id, if it is the kernel's own.
    pub(super) fn boot(&self) -> Option<String> {
        self.boot.as_deref().map(str::to_owned)
    }

    /// True if a row that was written at `written_at`, in the boot `boot`, was certainly written in another boot than this
    /// one. `now` must have been read *after* the row: a process of this boot reads the clock before it writes, so a row from
    /// the future is of another boot.
    pub(super) fn is_of_another_boot(&self, written_at: HostTime, boot: Option<&str>, now: HostTime) -> bool {
        match (boot, self.boot.as_deref()) {
            (Some(theirs), Some(ours)) => theirs != ours,
            _ => written_at.0 > now.0.saturating_add(BETWEEN_PROCESSORS),
        }
    }
}

impl HostTime {
    pub(super) fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(micros(time)))
    }
}

pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// The boot id, unless something else is mounted over the kernel's file: LXC and systemd-nspawn put a made-up id there
/// (`lxc_setup_boot_id`, `setup_boot_id`), so that two containers of one kernel would each take the other's leases
/// for those of an earlier boot.
fn boot_id() -> Option<Arc<str>> {
    let id = read_to_string(BOOT_ID).ok()?;
    let by_the_kernel = statfs(BOOT_ID).is_ok_and(|at| at.f_type == PROC_SUPER_MAGIC);
    by_the_kernel.then(|| id.trim_end().into())
}

/// How far this process's `CLOCK_BOOTTIME` is ahead of the host's, in microseconds (`time_namespaces(7)`).
fn time_namespace_offset() -> io::Result<i64> {
    let own = match read_link("/proc/self/ns/time") {
        // A kernel without time namespaces; but only if /proc is there to tell.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return read_link("/proc/self/ns/mnt").map(|_| 0);
        }
        other => other?,
    };
    // The offsets that the kernel shows are those of the children's namespace.
    if read_link("/proc/self/ns/time_for_children")? != own {
        return Err(io::Error::other("this process made a time namespace for its children"));
    }
    parse_offset(&read_to_string("/proc/self/timens_offsets")?)
        .ok_or_else(|| io::Error::other("/proc/self/timens_offsets does not read as documented"))
}

/// Reads the line `boottime SECONDS NANOSECONDS`, of which the seconds may be negative.
fn parse_offset(text: &str) -> Option<i64> {
    let line = text.lines().find(|line| line.starts_with("boottime"))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    let (seconds, nanoseconds) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(nanoseconds / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HostClock {
        /// This host's clock, but of this boot, and with this wall clock.
        pub(in crate::sqlite) fn for_test(boot: Option<&str>, wall: fn() -> SystemTime) -> Self {
            Self { clock: Arc::new(SystemClock::new()), wall, ahead: 0, boot: boot.map(Into::into) }
        }

        pub(in crate::sqlite) fn behind_by(mut self, time: Duration) -> Self {
            self.ahead = micros(time);
            self
        }
    }

    fn of_another_boot(ours: Option<&str>, theirs: Option<&str>, written_at: i64) -> bool {
        let clock = HostClock::for_test(ours, SystemTime::now);
        clock.is_of_another_boot(HostTime(written_at), theirs, HostTime(50_000_000))
    }

    #[test]
    fn boot_ids_decide_where_both_are_known() {
        for written_at in [0, 49_000_000, 90_000_000] {
            assert!(of_another_boot(Some("a"), Some("b"), written_at));
            assert!(!of_another_boot(Some("a"), Some("a"), written_at));
        }
    }

    #[test]
    fn row_without_a_boot_id_is_of_another_boot_only_if_it_is_in_the_future() {
        for (ours, theirs) in [(None, None), (Some("a"), None), (None, Some("b"))] {
            assert!(!of_another_boot(ours, theirs, 0));
            assert!(!of_another_boot(ours, theirs, 50_000_000));
            // The clocks of two processors may differ a little.
            assert!(!of_another_boot(ours, theirs, 50_100_000));
            assert!(of_another_boot(ours, theirs, 51_000_001));
        }
    }

    #[test]
    fn offset_of_a_time_namespace_is_read_as_the_kernel_writes_it() {
        let offset = |line: &str| parse_offset(&format!("monotonic           5         0\n{line}\n"));
        assert_eq!(offset("boottime            0         0"), Some(0));
        assert_eq!(offset("boottime       100000         0"), Some(100_000_000_000));
        assert_eq!(offset("boottime           -2 500000000"), Some(-1_500_000));
        assert_eq!(offset("boottime"), None);
        assert_eq!(offset("realtime 0 0"), None);
    }

    #[test]
    fn wall_clock_out_of_range_gives_token_1() {
        let unix = |wall| HostClock::for_test(None, wall).unix_micros();
        let in_seconds = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(unix(|| SystemTime::UNIX_EPOCH - Duration::from_secs(9)), 1);
        assert_eq!(unix(|| SystemTime::UNIX_EPOCH + Duration::from_secs(300 * 31_557_600)), 1);
        assert!(in_seconds(1_700_000_000) < SystemTime::now());
        assert!(unix(SystemTime::now) > 1_700_000_000_000_000);
    }

    #[test]
    fn time_counts_from_the_host_and_never_overflows() {
        let clock = HostClock::for_test(None, SystemTime::now);
        let before = clock.now();
        assert!(clock.behind_by(Duration::from_secs(3)).now() < before);
        let end = HostTime(i64::MAX).plus(Duration::MAX);
        assert_eq!(end, HostTime(i64::MAX));
    }

    #[test]
    fn host_shows_its_clock_and_its_boot() {
        let clock = HostClock::of_this_host().unwrap();
        assert!(clock.now() > HostTime(0));
        assert!(clock.boot().is_none_or(|boot| boot.len() == 36));
    }
}
