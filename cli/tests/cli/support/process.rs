use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine. A test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until it is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until all of these are gone.
#[track_caller]
pub(crate) fn gone(processes: &[Process]) {
    until("they are gone", || processes.iter().all(|process| !process.lives()));
}

/// Some process of this host, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(Pid);

impl Process {
    pub(crate) fn new(number: u32) -> Self {
        Self(Pid::from_raw(i32::try_from(number).unwrap()).unwrap())
    }

    /// The one whose number a command has printed.
    pub(crate) fn parse(text: &str) -> Self {
        Self::new(text.trim().parse().unwrap())
    }

    /// Living processes with this in their command line, but not `leasehold`, which has the command's in its own.
    pub(crate) fn marked(mark: &str) -> Vec<Self> {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_marked = |number: &u32| {
            let words = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            let program = || std::fs::read_link(format!("/proc/{number}/exe")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(mark)
                && program() != Path::new(env!("CARGO_BIN_EXE_leasehold"))
        };
        numbers.filter(is_marked).map(Self::new).filter(|process| process.lives()).collect()
    }

    pub(crate) fn number(self) -> i32 {
        self.0.as_raw_pid()
    }

    pub(crate) fn signal(self, signal: Signal) {
        kill_process(self.0, signal).unwrap();
    }

    /// The same for one that may have ended.
    pub(crate) fn try_signal(self, signal: Signal) {
        let _ = kill_process(self.0, signal);
    }

    /// True if it runs, or could. A zombie does not.
    pub(crate) fn lives(self) -> bool {
        self.state().is_some_and(|state| state != 'Z' && state != 'X')
    }

    /// True if a signal or a terminal has stopped it.
    pub(crate) fn is_stopped(self) -> bool {
        self.state() == Some('T')
    }

    /// True if it has a handler for this signal (`proc_pid_status(5)`).
    pub(crate) fn listens_to(self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
        let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or_default();
        mask >> (signal.as_raw() - 1) & 1 == 1
    }

    /// How often it has waited for something.
    pub(crate) fn pauses(self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let pauses = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        pauses.and_then(|pauses| pauses.trim().parse().ok()).unwrap_or_default()
    }

    /// Lets it open as much as this process, or nothing more. What it has may be waited for then, three at a time (`poll(2)`).
    pub(crate) fn may_open(self, anything: bool) {
        let ours = getrlimit(Resource::Nofile);
        let current = if anything { ours.current } else { Some(3) };
        prlimit(Some(self.0), Resource::Nofile, Rlimit { current, ..ours }).unwrap();
    }

    /// Its first child.
    pub(crate) fn child(self) -> Option<Self> {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0)).ok()?;
        Some(Self::parse(children.split_ascii_whitespace().next()?))
    }

    /// True if it is a watchdog that lives.
    pub(crate) fn is_watchdog(self) -> bool {
        std::fs::read(format!("/proc/{}/cmdline", self.0))
            .is_ok_and(|words| words.starts_with(b"lh-watchdog\0"))
    }

    /// Its parent, if that lives.
    pub(crate) fn parent(self) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        Some(Self::parse(stat.rsplit_once(") ")?.1.split(' ').nth(1)?))
    }

    fn state(self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }
}
