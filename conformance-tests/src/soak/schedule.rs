use crate::fault_run::FaultRun;
use crate::faults::{FaultSpec, Lasting, SideEffect, can_happen, spec_of};
use crate::time_scale::millis;
use fastrand::Rng;
use leasehold_core::{Fault, Outcome, Semantics};
use std::fmt;
use std::time::Duration;

/// What happens and when, and how many clients of each process it happens to. All of it follows from the seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) clients: u64,
    /// One after the other.
    pub(super) faults: Vec<PlannedFault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedFault {
    /// After the end of the one before.
    pub(super) after: Duration,
    pub(super) spec: FaultSpec,
    /// The time until it is healed, or passes by itself.
    pub(super) lasts: Duration,
}

impl Schedule {
    /// Draws one from what is possible, for leases of this length.
    pub(super) fn draw(seed: u64, possible: &[FaultSpec], lease: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let clients = rng.u64(1..=2);
        let (wanted, mut left) = (rng.usize(2..=4), possible.to_vec());
        let mut steps = Vec::with_capacity(wanted);
        while steps.len() < wanted && !left.is_empty() {
            let spec = left[rng.usize(..left.len())];
            steps.push(PlannedFault::draw(spec, lease, &mut rng));
            left.retain(|other| go_together(&spec, other));
        }
        // Other faults are made on the server that was the store in the beginning.
        steps.sort_by_key(|step| step.spec.side_effect() == SideEffect::Primary);
        Self { clients, faults: steps }
    }
}

/// The faults that the store can meet, and under which it promises anything.
pub(super) fn possible_faults(run: &FaultRun) -> Vec<FaultSpec> {
    let faults = Fault::ALL.into_iter().filter(|fault| *fault != Fault::None);
    let possible = faults.filter_map(|fault| {
        if matches!(promised(&run.semantics, fault), Outcome::MayBreak | Outcome::NotApplicable) {
            return None;
        }
        can_happen(&**run.cx.subject(), &run.semantics, fault).ok()?;
        spec_of(fault, run.cx.store(), &run.semantics).ok().filter(FaultSpec::is_one_of_many)
    });
    possible.collect()
}

fn go_together(one: &FaultSpec, other: &FaultSpec) -> bool {
    let alone = [one, other].iter().any(|spec| spec.side_effect() == SideEffect::None);
    alone && !spoils(one, other) && !spoils(other, one)
}

/// A store that began anew is followed by nobody who could take over. And a token after data were lost is taken from the
/// clock, so whoever changes the clock must not lose data as well: that tokens rise through both, no store promises.
fn spoils(one: &FaultSpec, other: &FaultSpec) -> bool {
    match one.side_effect() {
        SideEffect::None => false,
        SideEffect::Primary => other.fault == Fault::DataLost,
        SideEffect::Clocks => may_forget(other),
    }
}

fn may_forget(spec: &FaultSpec) -> bool {
    use Fault::*;
    let of_one_server =
        matches!(spec.fault, DataLost | DiskFull | MemoryFull | PowerLost | RecordDeleted | StoreRestarted);
    of_one_server || matches!(spec.fault, FailOver | MinorityDown | QuorumLost | SplitBrain)
}

/// What is promised while a fault lasts and when it is healed: a clock that was set back jumps ahead then.
pub(super) fn promised(semantics: &Semantics, fault: Fault) -> Outcome {
    let ahead = semantics.promises.under(Fault::StoreClockForward);
    match ahead {
        Outcome::FencedOnly | Outcome::MayBreak if fault == Fault::StoreClockBack => ahead,
        _ => semantics.promises.under(fault),
    }
}

impl PlannedFault {
    fn draw(spec: FaultSpec, lease: Duration, rng: &mut Rng) -> Self {
        // Not before the leases are over, or confirmed, that the fault before has touched: no store promises anything of two
        // at once.
        let after = lease + random(rng, Duration::ZERO, lease);
        let lasts = match spec.lasts {
            // What waits for what somebody asks needs a while for that, however short it is itself.
            Lasting::Moment if !spec.is_from_the_start() => Duration::ZERO,
            Lasting::Moment => random(rng, lease / 10, lease),
            Lasting::Spell(time) if time.least == time.most => time.least,
            Lasting::Spell(_) => random(rng, lease / 10, lease * 2),
            // What has forgotten its leases comes back when they are over.
            Lasting::State(_) => random(rng, lease, lease * 2),
        };
        Self { after, spec, lasts }
    }
}

/// In whole milliseconds.
fn random(rng: &mut Rng, least: Duration, most: Duration) -> Duration {
    Duration::from_millis(rng.u64(millis(least)..=millis(most)))
}

/// `HolderPaused at 1.9 s for 0.4 s, HolderKilled at 4.1 s`
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = Duration::ZERO;
        for (index, step) in self.faults.iter().enumerate() {
            at += step.after;
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{:?} at {:.1} s", step.spec.fault, at.as_secs_f64())?;
            if !step.lasts.is_zero() {
                write!(f, " for {:.1} s", step.lasts.as_secs_f64())?;
            }
            at += step.lasts;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{Means, Time};
    use std::collections::HashSet;

    const LEASE: Duration = Duration::from_millis(1_500);

    /// As many of them as there are, with three that want the clocks and one that wants the primary.
    fn kit() -> Vec<FaultSpec> {
        let least = Duration::from_secs(2);
        let time = Time { least, most: least * 2 };
        let possible = |fault| {
            let (means, lasts) = match fault {
                Fault::HolderKilled => (Means::KillHolder, Lasting::Moment),
                Fault::ExecutorStarved => (Means::StarveHolder, Lasting::Spell(Time::exactly(least))),
                Fault::QuorumLost => (Means::KillStore, Lasting::State(time)),
                Fault::ClientSuspended => (Means::SuspendHolder, Lasting::Spell(time)),
                Fault::ClientClockJumps => (Means::StepHolderClock, Lasting::Spell(time)),
                Fault::StoreClockBack => (Means::StepStoreClockBack, Lasting::Spell(time)),
                Fault::FailOver => (Means::FailOver, Lasting::Spell(time)),
                _ => (Means::Nothing, Lasting::Spell(time)),
            };
            FaultSpec { fault, means, lasts, ttl: LEASE }
        };
        Fault::ALL.map(possible).into()
    }

    fn draw(seed: u64) -> Schedule {
        Schedule::draw(seed, &kit(), LEASE)
    }

    #[test]
    fn seed_has_one_schedule_and_seeds_have_many() {
        let all: HashSet<String> = (0..100).map(|seed| draw(seed).to_string()).collect();
        assert_eq!(all.len(), 100);
        assert_eq!(draw(7), draw(7));
    }

    #[test]
    fn faults_are_all_drawn_sooner_or_later_and_end() {
        let schedules: Vec<Schedule> = (0..300).map(draw).collect();
        for fault in Fault::ALL {
            let drawn = |schedule: &Schedule| schedule.faults.iter().any(|step| step.spec.fault == fault);
            assert!(schedules.iter().any(drawn), "never {fault:?}");
        }
        for schedule in &schedules {
            assert!((2..=4).contains(&schedule.faults.len()), "{schedule}");
            let length: Duration = schedule.faults.iter().map(|step| step.after + step.lasts).sum();
            assert!(length <= LEASE * 4 * 4, "{schedule}");
        }
    }

    #[test]
    fn faults_with_side_effects_are_not_drawn_together() {
        for schedule in (0..300).map(draw) {
            let claims = schedule.faults.iter().filter(|step| step.spec.side_effect() != SideEffect::None);
            assert!(claims.count() <= 1, "{schedule}");
            let primary =
                schedule.faults.iter().position(|step| step.spec.side_effect() == SideEffect::Primary);
            assert!(primary.is_none_or(|place| place + 1 == schedule.faults.len()), "{schedule}");
        }
    }

    #[test]
    fn clock_and_data_loss_are_not_drawn_together() {
        let drawn = |schedule: &Schedule, is: fn(&FaultSpec) -> bool| {
            schedule.faults.iter().any(|step| is(&step.spec))
        };
        for schedule in (0..300).map(draw) {
            let lost = drawn(&schedule, |spec| spec.fault == Fault::DataLost);
            assert!(
                !lost || !drawn(&schedule, |spec| spec.side_effect() == SideEffect::Primary),
                "{schedule}"
            );
            let clocks = drawn(&schedule, |spec| spec.side_effect() == SideEffect::Clocks);
            assert!(!clocks || !drawn(&schedule, may_forget), "{schedule}");
        }
    }

    #[test]
    fn store_without_possible_faults_has_an_empty_round() {
        assert_eq!(Schedule::draw(7, &[], LEASE).faults, []);
    }

    #[test]
    fn drawn_fault_lasts_as_its_kind_requires() {
        for step in (0..300).flat_map(|seed| draw(seed).faults) {
            match step.spec.fault {
                Fault::HolderKilled => assert_eq!(step.lasts, Duration::ZERO),
                Fault::ExecutorStarved => assert_eq!(step.lasts, Duration::from_secs(2)),
                Fault::QuorumLost => assert!(step.lasts >= LEASE, "{step:?}"),
                _ => assert!(step.lasts > Duration::ZERO, "{step:?}"),
            }
            assert!(step.after >= LEASE, "{step:?}");
        }
    }
}
