use super::{Place, Process, Running};
use leasehold::client::{Clock, Moment, SystemClock};
use std::time::Duration;

/// The length of the lease of a [`Stubborn`].
pub(crate) const TTL: Duration = Duration::from_millis(1500);

/// A command with a child, both of whom ignore TERM, under a lease of [`TTL`].
pub(crate) struct Stubborn {
    pub(crate) place: Place,
    pub(crate) run: Running,
    pub(crate) processes: [Process; 2],
    /// Before the lock was asked for: no lease of it that was not renewed lasts longer than a ttl from here.
    pub(crate) began: Moment,
}

impl Stubborn {
    /// Its watchdog has reported the start of the command, so that it may be killed or stopped from now on.
    pub(crate) fn start(options: &[&str]) -> Self {
        let stubborn = Self::watched(Place::new(), options, |_| {});
        stubborn.run.warned("started pid");
        stubborn
    }

    /// Its processes are looked for after `watch`, which is given the one that becomes its watchdog.
    pub(crate) fn watched(place: Place, options: &[&str], watch: impl FnOnce(Process)) -> Self {
        Self::under_lease(TTL, place, options, watch)
    }

    /// Under a lease of another length.
    pub(crate) fn under_lease(
        ttl: Duration,
        place: Place,
        options: &[&str],
        watch: impl FnOnce(Process),
    ) -> Self {
        let (began, ttl) = (SystemClock::new().now(), format!("{}ms", ttl.as_millis()));
        let mut words = vec!["-v", "run", "--ttl", &ttl];
        words.extend(options);
        let script = "trap '' TERM; sh -c 'echo child $$; while :; do sleep 1000; done' & echo pid $$; while :; do wait; done";
        words.extend(["x", "--", "sh", "-c", script]);
        let mut run = place.start(&words);
        watch(run.watchdog());
        let mut numbers = [run.line(""), run.line("")];
        numbers.sort();
        let parse = |line: &str| Process::parse(line.split_whitespace().last().unwrap());
        let processes = [parse(&numbers[0]), parse(&numbers[1])];
        Self { place, run, processes, began }
    }

    /// Waits until the next holder's command has begun, and answers whether anything of this one's lived then.
    pub(crate) fn overlapped(&self) -> bool {
        let mut next = self.place.start(["-q", "run", "x", "--", "sh", "-c", "echo mine; exec sleep 1000"]);
        next.line("mine");
        self.processes.iter().any(|process| process.lives())
    }
}
