//! How late this machine is, by a timer beside all cases that is to fire every five milliseconds. And how crowded it is, by the count of
//! threads that want a processor: the timer's thread mostly sleeps, so it is given a processor before them, and sees no crowd.

use crate::locked;
use crate::stop::Stop;
use crate::time_scale::{SLACK, scaled, stretch};
use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, Once};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(5);
/// How late the timer is on an idle machine.
const USUAL: Duration = Duration::from_millis(1);
/// How many late firings are kept: more than an hour has on a machine that is idle, and some minutes of one that never is.
const KEPT: usize = 100_000;
/// How long a look at the machine takes.
const LOOK: Duration = Duration::from_millis(250);
/// How often the threads that want a processor are counted.
const COUNTED_EVERY: Duration = Duration::from_millis(50);
/// More threads than this for each processor delay the steps of a case, and twice as many delay them beyond all bounds.
const CROWD: f64 = 8.0;

pub(crate) static FIRINGS: Mutex<Firings> =
    Mutex::new(Firings { last: None, late: VecDeque::new(), crowds: VecDeque::new() });

/// The firings of the timer.
pub(crate) struct Firings {
    last: Option<Instant>,
    /// When it fired too late, and how late it was.
    pub(crate) late: VecDeque<(Instant, Duration)>,
    /// How many threads wanted a processor, for each that there is, and when.
    crowds: VecDeque<(Instant, f64)>,
}

/// Starts the timer, once in a process, and waits for its first look. On a machine that is late by then, everything takes longer
/// from now on.
pub(crate) fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            loop {
                locked(&FIRINGS).fired(Instant::now());
                std::thread::sleep(INTERVAL);
            }
        });
        if !Lateness::now().is_on_time() {
            stretch(true);
        }
    });
}

/// True if another attempt would show nothing: the machine was too late, and still is.
pub(crate) fn stays_too_late(was_too_late: bool) -> bool {
    was_too_late && Lateness::now().is_too_late()
}

/// True if this machine was too late since `start` for any verdict: that a broken lock passed shows nothing then.
pub fn was_too_late_since(start: Instant) -> bool {
    Lateness::of_a_case(start).is_too_late()
}

impl Firings {
    fn fired(&mut self, now: Instant) {
        self.late.extend(self.overdue(now));
        if self.late.len() > KEPT {
            self.late.pop_front();
        }
        self.last = Some(now);
        if self.crowds.back().is_none_or(|(counted, _)| now >= *counted + COUNTED_EVERY) {
            self.crowds.extend(crowd().map(|crowd| (now, crowd)));
            if self.crowds.len() > KEPT {
                self.crowds.pop_front();
            }
        }
    }

    /// The mean since then; the last count before, where there is none.
    fn crowd_since(&self, start: Instant) -> f64 {
        let since = self.crowds.iter().rev().take_while(|(counted, _)| *counted >= start);
        let since: Vec<f64> = since.map(|(_, crowd)| *crowd).collect();
        match since.len() {
            0 => self.crowds.back().map_or(0.0, |(_, crowd)| *crowd),
            count => since.iter().sum::<f64>() / count as f64,
        }
    }

    /// The lateness of the next firing, if it is late by now.
    fn overdue(&self, now: Instant) -> Option<(Instant, Duration)> {
        let late = now.saturating_duration_since(self.last?).saturating_sub(INTERVAL + USUAL);
        (!late.is_zero()).then_some((now, late))
    }

    /// The late firings since then, the last one first, with the one that is overdue now.
    fn since(&self, start: Instant, now: Instant) -> Vec<(Instant, Duration)> {
        let late = self.overdue(now).into_iter().chain(self.late.iter().rev().copied());
        late.take_while(|(fired, _)| *fired >= start).collect()
    }
}

/// How many threads of the host want a processor now, for each that the host has. `None` where the kernel does not tell.
fn crowd() -> Option<f64> {
    static PROCESSORS: LazyLock<Option<u32>> =
        LazyLock::new(|| processors(&std::fs::read_to_string("/proc/stat").ok()?));
    let told = std::fs::read_to_string("/proc/loadavg").ok()?;
    let (running, _) = told.split(' ').nth(3)?.split_once('/')?;
    // Without this thread.
    let others = running.parse::<u32>().ok()?.saturating_sub(1);
    Some(f64::from(others) / f64::from((*PROCESSORS)?))
}

/// The processors of the host, by `proc_stat(5)`: a container with a quota counts the threads of all others too.
fn processors(stat: &str) -> Option<u32> {
    let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    let count = lines.filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit())).count();
    u32::try_from(count).ok().filter(|count| *count > 0)
}

/// How late the timer was while a case ran, and how crowded the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness {
    /// By how much in all.
    pub(crate) in_all: Duration,
    /// The most in any window.
    pub(crate) most: Duration,
    pub(crate) window: Duration,
    /// How many threads wanted each processor: the mean over the case.
    pub(crate) crowd: f64,
}

impl Lateness {
    /// Since `start`, in windows as long as the room that cases leave to a busy machine.
    pub(crate) fn of_a_case(start: Instant) -> Self {
        Self::since(start, scaled(SLACK))
    }

    /// During a [`LOOK`] from now on.
    fn now() -> Self {
        let start = Instant::now();
        std::thread::sleep(LOOK);
        Self::since(start, LOOK)
    }

    fn since(start: Instant, window: Duration) -> Self {
        let firings = locked(&FIRINGS);
        let (samples, crowd) = (firings.since(start, Instant::now()), firings.crowd_since(start));
        drop(firings);
        let in_all = samples.iter().map(|(_, late)| *late).sum();
        Self { in_all, most: most_within(&samples, window), window, crowd }
    }

    /// What was seen, after the reason not to judge it.
    pub(crate) fn told(self, seen: &str) -> String {
        let Self { most, window, crowd, .. } = self;
        let timers = format!("its timers were {most:.0?} late within {window:?}");
        format!("this machine was late: {timers}; threads for each processor: {crowd:.0}; {seen}")
    }

    /// Not judged, in place of a bound that was missed by less than the machine was late, or on a machine that was too late.
    pub(crate) fn excuse(self, stop: Stop) -> Stop {
        match stop {
            Stop::Away(why) if !self.is_on_time() => Stop::NotJudged(self.told(&why)),
            Stop::Late(why, _) if self.is_too_late() => Stop::NotJudged(self.told(&why)),
            Stop::Late(why, Some(by)) if by < self.in_all => {
                Stop::NotJudged(format!("this machine was late by {:?} in all: {why}", self.in_all))
            }
            stop => stop,
        }
    }

    /// True if the timer lost up to a sixth of any window, and the mean crowd was small: steps took little longer than usual.
    pub(crate) fn is_on_time(self) -> bool {
        self.most * 6 <= self.window && self.crowd <= CROWD
    }

    /// True if no bound can be judged: the machine was away for more than a third of some window, or too crowded.
    pub(crate) fn is_too_late(self) -> bool {
        self.most * 3 > self.window || self.crowd > 2.0 * CROWD
    }
}

/// The most that was lost within any window. The samples begin with the last.
fn most_within(samples: &[(Instant, Duration)], window: Duration) -> Duration {
    let (mut most, mut sum, mut first) = (Duration::ZERO, Duration::ZERO, 0);
    for (fired, late) in samples {
        sum += *late;
        while samples[first].0 - *fired > window {
            sum -= samples[first].1;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_is_that_of_the_worst_window() {
        let (now, ms) = (Instant::now() + Duration::from_secs(10), Duration::from_millis);
        let late = [(0, 1), (100, 20), (150, 30), (600, 5), (3_000, 45)];
        let samples = late.map(|(before, by)| (now - ms(before), ms(by)));
        assert_eq!(most_within(&samples, ms(100)), ms(50));
        assert_eq!(most_within(&samples, ms(40)), ms(45));
        assert_eq!(most_within(&samples, ms(1_000)), ms(56));
        assert_eq!(most_within(&[], ms(100)), Duration::ZERO);
    }

    #[test]
    fn stall_counts_while_it_lasts_and_firings_in_time_do_not() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut firings = Firings { last: None, late: VecDeque::new(), crowds: VecDeque::new() };
        for at in [0, 5, 11, 117] {
            firings.fired(start + ms(at));
        }
        let seen = |from, now| firings.since(start + ms(from), start + ms(now));
        assert_eq!(seen(0, 120), [(start + ms(117), ms(100))]);
        assert_eq!(seen(0, 323), [(start + ms(323), ms(200)), (start + ms(117), ms(100))]);
        assert_eq!(seen(200, 323), [(start + ms(323), ms(200))]);
    }

    #[test]
    fn machine_whose_processors_are_wanted_by_many_threads_is_too_late() {
        let judged = |crowd| {
            let late = Lateness { window: Duration::from_millis(500), crowd, ..Lateness::default() };
            (late.is_on_time(), late.is_too_late())
        };
        assert_eq!(
            [8.0, 8.5, 16.0, 16.5].map(judged),
            [(true, false), (false, false), (false, false), (false, true)]
        );
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let crowds = [(0, 90.0), (50, 4.0), (100, 8.0)].map(|(at, crowd)| (start + ms(at), crowd));
        let firings = Firings { last: None, late: VecDeque::new(), crowds: crowds.into() };
        assert_eq!([0, 1, 101].map(|from| firings.crowd_since(start + ms(from)) as u32), [34, 6, 8]);
    }

    #[test]
    fn processors_are_those_of_the_host() {
        let stat = "cpu  9 0\ncpu0 4 0\ncpu1 5 0\nintr 7\ncpufreq 1\n";
        assert_eq!(processors(stat), Some(2));
        assert_eq!(processors("cpu  9 0\n"), None);
    }

    #[test]
    fn machine_that_loses_a_third_of_a_window_is_too_late() {
        let of = |most| Lateness {
            most: Duration::from_millis(most),
            window: Duration::from_millis(600),
            ..Lateness::default()
        };
        let judged = |most: u64| (of(most).is_on_time(), of(most).is_too_late());
        assert_eq!(
            [100, 101, 200, 201].map(judged),
            [(true, false), (false, false), (false, false), (false, true)]
        );
    }

    #[test]
    fn bound_missed_by_less_than_the_machine_was_late_is_not_judged() {
        let ms = Duration::from_millis;
        let of = |most, in_all| Lateness {
            most: ms(most),
            in_all: ms(in_all),
            window: ms(600),
            ..Lateness::default()
        };
        let excused = |late: Lateness, by: Option<u64>| {
            matches!(late.excuse(Stop::Late("it".to_owned(), by.map(ms))), Stop::NotJudged(_))
        };
        assert_eq!([Some(29), Some(30), None].map(|by| excused(of(20, 30), by)), [true, false, false]);
        // Too late for any bound.
        assert_eq!([Some(900), None].map(|by| excused(of(201, 300), by)), [true, true]);
        assert!(matches!(of(201, 300).excuse(Stop::Failed("two".to_owned())), Stop::Failed(_)));
    }

    #[test]
    fn store_that_was_away_is_judged_only_by_a_machine_that_was_on_time() {
        let of = |crowd| Lateness { window: Duration::from_millis(500), crowd, ..Lateness::default() };
        let excused = |crowd| of(crowd).excuse(Stop::Away("no answer".to_owned())).to_string();
        assert_eq!(excused(8.0), "no answer");
        assert_eq!(
            excused(9.0),
            "this machine was late: its timers were 0ns late within 500ms; threads for each processor: 9; no answer"
        );
    }

    #[test]
    fn lateness_in_all_is_the_sum_and_most_is_that_of_one_window() {
        let start = Instant::now();
        be_late();
        std::thread::sleep(Duration::from_millis(2));
        be_late();
        let late = Lateness::since(start, Duration::ZERO);
        assert!(late.in_all >= late.most + Duration::from_secs(10), "{late:?}");
    }

    /// Makes the machine late from now on, to cases that run.
    fn be_late() {
        locked(&FIRINGS).late.push_back((Instant::now(), Duration::from_secs(10)));
    }
}
