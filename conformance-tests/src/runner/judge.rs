//! The verdict on a case: of one attempt, or of two.
//!
//! A machine is *on time* while its timers lose up to a sixth of any half second, or of any 1.5 s if times are stretched, and up to 8
//! threads want each of its processors in the mean of the attempt. It is *too late* beyond a third, or 16 threads.
//!
//! 1. A case that fails, misses a bound or shows nothing is run again alone, once no first attempt runs or waits; if many second
//!    attempts wait already, in turn with the first ones. If the machine was not on time, everything takes three times as long then.
//! 2. A failure that no delay explains counts in either attempt, and is not tried again: a token that did not grow, a missing right.
//!    A failure in a first attempt on a machine that was on time counts too, unless it is late, away or void.
//! 3. Otherwise the second attempt decides. A failure in it is not judged if the machine was too late; a missed bound is not judged
//!    either if it was missed by less than the machine was late in all; an unreachable store is judged only if the machine was on time.
//! 4. So a case that passes the second time has passed, even if the first attempt showed two holders on a machine that was not on time:
//!    the lease of a holder that gets no processor ends, in every store. [`CaseResult::at_first`] keeps what was seen.
//! 5. A second attempt that is interrupted or skipped does not count, and none is made if the machine was too late in the first and still
//!    is. The case is not judged then, unless rule 2 applies.

use super::host_capacity::HostCapacity;
use super::one::{WATCHDOG, watched};
use super::result::CaseResult;
use super::run::Run;
use crate::case::Case;
use crate::lateness::{Lateness, stays_too_late};
use crate::run_config::RunConfig;
use crate::stop::{Stop, Verdict};
use crate::subject::Subject;
use crate::time_scale::{is_stretched, stretch};
use std::sync::Arc;
use std::time::Instant;

/// A run of a case, and how late the machine was meanwhile.
struct CaseAttempt {
    verdict: Verdict,
    late: Lateness,
}

/// Runs one case when its share of the host is free, says when it begins, and judges it. `None` if its first attempt was interrupted.
pub(super) fn judge(
    subject: &Arc<dyn Subject>,
    case: Case,
    config: &RunConfig,
    begun: impl FnOnce(),
) -> Option<CaseResult> {
    static CAPACITY: HostCapacity = HostCapacity::new(Run::THREADS);
    let attempt = || {
        let start = Instant::now();
        let verdict = watched(WATCHDOG, subject, case, config)?;
        Some(CaseAttempt { verdict, late: Lateness::of_a_case(start) })
    };
    let permit = CAPACITY.take(case.share);
    begun();
    let start = Instant::now();
    let first = attempt()?;
    let took = start.elapsed();
    drop(permit);
    let at_first = first.verdict.as_ref().err().and_then(Stop::needs_second_attempt);
    if at_first.is_none() {
        return Some(CaseResult::new(subject.name(), case, first.verdict, took));
    }
    let _permit = CAPACITY.take_all_when_idle();
    let (start, was_stretched) = (Instant::now(), is_stretched());
    stretch(was_stretched || !first.late.is_on_time());
    let second = if stays_too_late(first.late.is_too_late()) { None } else { attempt() };
    let second = second.filter(|second| !matches!(second.verdict, Err(Stop::Skipped(_))));
    stretch(was_stretched);
    let at_first = at_first.filter(|_| second.is_some());
    let result = CaseResult::new(subject.name(), case, of_two(first, second), took + start.elapsed());
    Some(CaseResult { at_first, ..result })
}

fn of_two(first: CaseAttempt, second: Option<CaseAttempt>) -> Verdict {
    let (second, late) = match second {
        Some(second) => (second.verdict, second.late),
        None => {
            let seen = first.verdict.as_ref().err().map(Stop::to_string).unwrap_or_default();
            let why = match first.late.is_too_late() {
                true => first.late.told(&seen),
                false => format!("interrupted, or skipped, when it was run again: {seen}"),
            };
            (Err(Stop::NotJudged(why)), Lateness::default())
        }
    };
    match (first.verdict, second) {
        (Err(Stop::Wrong(why)), _) | (_, Err(Stop::Wrong(why))) => Err(Stop::Wrong(why)),
        (Err(Stop::Failed(why) | Stop::Absent(why)), second) if first.late.is_on_time() => {
            let once = if second.is_ok() { "in one of two attempts: " } else { "" };
            Err(Stop::Failed(format!("{once}{why}")))
        }
        (_, Err(Stop::Failed(why) | Stop::Absent(why))) if late.is_too_late() => {
            Err(Stop::NotJudged(late.told(&why)))
        }
        (_, second) => second.map_err(|stop| late.excuse(stop)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::by_id;
    use crate::lateness::FIRINGS;
    use crate::locked;
    use crate::runner::CaseOutcome;
    use crate::subject::Store;
    use async_trait::async_trait;
    use leasehold_core::memory::MemoryBackend;
    use leasehold_core::{DistributedLock, LockClient};
    use std::sync::Mutex;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    fn attempt(verdict: Verdict, late_by: u32) -> CaseAttempt {
        let late = Lateness { in_all: MS * late_by, most: MS * late_by, window: MS * 500, crowd: 1.0 };
        CaseAttempt { verdict, late }
    }

    fn two_holders() -> Verdict {
        Err(Stop::Failed("two holders".to_owned()))
    }

    fn late(by: u32) -> Verdict {
        Err(Stop::Late("a release".to_owned(), Some(MS * by)))
    }

    fn judged(first: CaseAttempt, second: CaseAttempt) -> String {
        of_two(first, Some(second)).map_or_else(|stop| format!("{stop:?}"), |()| "passed".to_owned())
    }

    #[test]
    fn case_that_fails_twice_on_a_machine_that_is_on_time_has_failed() {
        assert_eq!(judged(attempt(two_holders(), 5), attempt(two_holders(), 5)), r#"Failed("two holders")"#);
        assert_eq!(judged(attempt(late(30), 5), attempt(late(30), 5)), r#"Late("a release", Some(30ms))"#);
    }

    #[test]
    fn case_is_not_judged_by_a_machine_that_was_late() {
        let busy = "its timers were 170ms late within 500ms; threads for each processor: 1";
        let words = format!(r#"NotJudged("this machine was late: {busy}; two holders")"#);
        assert_eq!(judged(attempt(two_holders(), 90), attempt(two_holders(), 170)), words);
        let words = r#"NotJudged("this machine was late by 31ms in all: a release")"#;
        assert_eq!(judged(attempt(late(30), 5), attempt(late(30), 31)), words);
        let not_ready = Err(Stop::NotJudged("the server was not ready".to_owned()));
        assert_eq!(
            judged(attempt(late(30), 5), attempt(not_ready, 5)),
            r#"NotJudged("the server was not ready")"#
        );
    }

    #[test]
    fn case_whose_second_attempt_is_interrupted_or_skipped_has_failed_or_is_not_judged() {
        let of = |first| of_two(first, None).unwrap_err();
        assert!(matches!(of(attempt(two_holders(), 80)), Stop::Failed(why) if why == "two holders"));
        for first in [attempt(two_holders(), 90), attempt(late(30), 5)] {
            let words = format!(
                "interrupted, or skipped, when it was run again: {}",
                first.verdict.clone().unwrap_err()
            );
            assert!(matches!(of(first), Stop::NotJudged(why) if why == words));
        }
    }

    #[test]
    fn case_that_shows_nothing_is_run_again_and_then_not_judged() {
        let void = || Err(Stop::Void("3 grants".to_owned()));
        let again = |stop: Stop| stop.needs_second_attempt();
        assert_eq!(void().map_err(again), Err::<(), _>(Some("void: 3 grants".to_owned())));
        assert_eq!(again(Stop::NotJudged("void: not ready".to_owned())), None);
        assert_eq!(judged(attempt(void(), 5), attempt(Ok(()), 5)), "passed");
        assert_eq!(judged(attempt(late(30), 5), attempt(void(), 5)), r#"Void("3 grants")"#);
        let outcome = CaseOutcome::from(void());
        assert_eq!(outcome, CaseOutcome::NotJudged { why: "void: 3 grants".to_owned() });
    }

    #[test]
    fn token_that_did_not_grow_is_a_failure_however_late_the_machine_was() {
        let wrong = || Err(Stop::Wrong("token 1 after 2".to_owned()));
        let words = r#"Wrong("token 1 after 2")"#;
        assert_eq!(judged(attempt(wrong(), 400), attempt(Ok(()), 400)), words);
        for first in [80, 400] {
            assert_eq!(judged(attempt(two_holders(), first), attempt(wrong(), 400)), words);
        }
    }

    #[test]
    fn second_attempt_forgives_lateness_and_a_late_machine_alone() {
        assert_eq!(judged(attempt(late(30), 5), attempt(Ok(()), 5)), "passed");
        assert_eq!(judged(attempt(two_holders(), 90), attempt(Ok(()), 5)), "passed");
        let words = r#"Failed("in one of two attempts: two holders")"#;
        assert_eq!(judged(attempt(two_holders(), 80), attempt(Ok(()), 5)), words);
    }

    #[test]
    fn hook_that_found_nothing_is_judged_as_a_failure_is() {
        let absent = || Err(Stop::Absent("no record".to_owned()));
        let once = r#"Failed("in one of two attempts: no record")"#;
        assert_eq!(judged(attempt(absent(), 80), attempt(Ok(()), 5)), once);
        assert!(judged(attempt(two_holders(), 90), attempt(absent(), 170)).starts_with("NotJudged("));
    }

    #[test]
    fn failure_is_excused_only_by_a_first_attempt_not_on_time_and_a_second_too_late() {
        for (first, second) in [(170, 5), (170, 160), (80, 170)] {
            let seen = judged(attempt(two_holders(), first), attempt(two_holders(), second));
            assert_eq!(seen, r#"Failed("two holders")"#, "{first}, {second}");
        }
    }

    /// Locks in memory, in a store whose starts end like this before one succeeds.
    #[derive(Debug)]
    struct Starts {
        client: Arc<LockClient>,
        stops: Mutex<Vec<Stop>>,
        /// For how long each start makes the machine late, and whether times were stretched in each.
        late_for: Duration,
        stretched: Mutex<Vec<bool>>,
    }

    impl Store for LockClient {
        fn address(&self) -> String {
            String::new()
        }
    }

    #[async_trait]
    impl Subject for Starts {
        fn name(&self) -> &str {
            "starts"
        }

        async fn start(&self) -> Result<Box<dyn Store>, Stop> {
            self.stretched.lock().unwrap().push(is_stretched());
            let be_late = || locked(&FIRINGS).late.push_back((Instant::now(), Duration::from_secs(10)));
            if !self.late_for.is_zero() {
                be_late();
            }
            let (until, client) = (Instant::now() + self.late_for, Arc::downgrade(&self.client));
            std::thread::spawn(move || {
                while Instant::now() < until && client.strong_count() > 0 {
                    be_late();
                    std::thread::sleep(MS * 5);
                }
            });
            tokio::time::sleep(MS * 30).await;
            let stop = self.stops.lock().unwrap().pop();
            stop.map_or_else(|| Ok(Box::new(new_client()) as Box<dyn Store>), Err)
        }

        async fn connect(&self, _: &str) -> leasehold_core::Result<Arc<dyn DistributedLock>> {
            Ok(self.client.clone())
        }
    }

    fn new_client() -> LockClient {
        LockClient::new(Arc::new(MemoryBackend::new()))
    }

    /// The result of a case whose starts end with `stops`, the last one first; whether times were stretched in each attempt, and after.
    fn judge_starts(stops: &[Stop], late_for: Duration) -> (CaseResult, Vec<bool>) {
        static ALONE: Mutex<()> = Mutex::new(());
        // One after the other: all second attempts of a process are stretched, or none is.
        let _alone = locked(&ALONE);
        // Also on a machine that is late when the first case begins.
        crate::lateness::watch();
        stretch(false);
        let client = Arc::new(new_client());
        let stops = Mutex::new(stops.to_vec());
        let starts = Arc::new(Starts { client, stops, late_for, stretched: Mutex::default() });
        let subject: Arc<dyn Subject> = starts.clone();
        let result = judge(&subject, by_id("A01").unwrap(), &RunConfig::from_environment(), || ());
        let mut stretched = std::mem::take(&mut *starts.stretched.lock().unwrap());
        stretched.push(is_stretched());
        (result.unwrap(), stretched)
    }

    #[test]
    fn failed_late_and_void_attempts_are_run_again_and_kept() {
        let why = || "it".to_owned();
        for stop in [Stop::Failed(why()), Stop::Absent(why()), Stop::Late(why(), None), Stop::Void(why())] {
            let (result, stretched) = judge_starts(std::slice::from_ref(&stop), Duration::ZERO);
            assert_eq!((result.at_first, stretched.len()), (stop.needs_second_attempt(), 3), "{stop:?}");
            assert!(result.took_ms >= 60, "both attempts: {} ms", result.took_ms);
        }
        for stop in [Stop::Wrong(why()), Stop::NotJudged(why()), Stop::Skipped(why())] {
            let (result, stretched) = judge_starts(std::slice::from_ref(&stop), Duration::ZERO);
            assert_eq!((result.at_first, stretched.len()), (None, 2), "{stop:?}");
            assert_eq!(result.outcome, CaseOutcome::from(Err(stop)));
        }
    }

    #[test]
    fn second_attempt_that_is_skipped_does_not_count() {
        let (result, _) =
            judge_starts(&[Stop::Skipped("no hook".to_owned()), Stop::Void("it".to_owned())], Duration::ZERO);
        let CaseOutcome::NotJudged { why } = result.outcome else { panic!("{result:?}") };
        assert_eq!(
            (why.as_str(), result.at_first),
            ("interrupted, or skipped, when it was run again: void: it", None)
        );
    }

    #[test]
    fn times_are_stretched_in_the_second_attempt_after_a_late_one_and_not_beyond() {
        let (result, stretched) = judge_starts(&[Stop::Failed("it".to_owned())], Duration::from_nanos(1));
        assert_eq!(result.outcome, CaseOutcome::Passed, "a late machine showed it first");
        assert_eq!(stretched, [false, true, false]);
    }

    #[test]
    fn second_attempt_is_left_out_while_the_machine_stays_too_late() {
        let (result, stretched) = judge_starts(&[two_holders().unwrap_err()], MS * 60_000);
        let CaseOutcome::NotJudged { why } = result.outcome else { panic!("{result:?}") };
        assert!(why.starts_with("this machine was ") && why.ends_with("; two holders"), "{why}");
        assert_eq!(stretched, [false, false], "one attempt");
    }
}
