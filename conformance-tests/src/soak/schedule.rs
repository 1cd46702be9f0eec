use crate::faults::{Claim, Lasting};
use fastrand::Rng;
use leasehold_core::{Fault, Outcome};
use std::fmt;
use std::time::Duration;

/// A fault that the store of a round can meet, and what a schedule has to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Possible {
    pub(super) fault: Fault,
    /// What holds while it lasts, and when it is healed.
    pub(super) promised: Outcome,
    pub(super) lasts: Lasting,
    pub(super) claim: Claim,
    /// True if it waits for what somebody asks: it needs a while for that, however short it is itself.
    pub(super) lies_in_wait: bool,
}

/// What happens and when, and how many clients of each process it happens to. All of it follows from the seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) clients: u64,
    /// One after the other.
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// After the end of the one before.
    pub(super) after: Duration,
    pub(super) what: Possible,
    /// The time until it is healed, or passes by itself.
    pub(super) lasts: Duration,
}

impl Schedule {
    /// Draws one from what is possible, for leases of this length.
    pub(super) fn draw(seed: u64, possible: &[Possible], lease: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let clients = rng.u64(1..=2);
        let (wanted, mut left) = (rng.usize(2..=4), possible.to_vec());
        let mut steps = Vec::with_capacity(wanted);
        while steps.len() < wanted && !left.is_empty() {
            let what = left[rng.usize(..left.len())];
            steps.push(Step::draw(what, lease, &mut rng));
            left.retain(|other| what.goes_with(other));
        }
        // Other faults are made on the server that was the store in the beginning.
        steps.sort_by_key(|step| step.what.claim == Claim::Primary);
        Self { clients, steps }
    }
}

impl Possible {
    fn goes_with(&self, other: &Self) -> bool {
        let alone = self.claim == Claim::Nothing || other.claim == Claim::Nothing;
        alone
            && !self.misleads(other)
            && !other.misleads(self)
            && !self.strands(other)
            && !other.strands(self)
    }

    /// A store that began anew is followed by nobody who could take over.
    fn strands(&self, other: &Self) -> bool {
        self.fault == Fault::DataLost && other.claim == Claim::Primary
    }

    /// A token after data were lost is taken from the clock, so whoever changes the clock must not lose data as well: that
    /// tokens rise through both, no store promises.
    fn misleads(&self, other: &Self) -> bool {
        self.claim == Claim::Clocks && other.may_forget()
    }

    fn may_forget(&self) -> bool {
        use Fault::{
            DataLost, DiskFull, FailOver, MemoryFull, MinorityDown, PowerLost, QuorumLost, RecordDeleted,
            SplitBrain, StoreRestarted,
        };
        matches!(
            self.fault,
            DataLost
                | DiskFull
                | FailOver
                | MemoryFull
                | MinorityDown
                | PowerLost
                | QuorumLost
                | RecordDeleted
                | SplitBrain
                | StoreRestarted
        )
    }
}

impl Step {
    fn draw(what: Possible, lease: Duration, rng: &mut Rng) -> Self {
        // Not before the leases are over, or confirmed, that the fault before has touched: no store promises anything of two
        // at once.
        let after = lease + random(rng, Duration::ZERO, lease);
        let lasts = match what.lasts {
            Lasting::Moment if !what.lies_in_wait => Duration::ZERO,
            Lasting::Moment => random(rng, lease / 10, lease),
            Lasting::Spell(time) if time.least == time.most => time.least,
            Lasting::Spell(_) => random(rng, lease / 10, lease * 2),
            // What has forgotten its leases comes back when they are over.
            Lasting::State(_) => random(rng, lease, lease * 2),
        };
        Self { after, what, lasts }
    }
}

/// In whole milliseconds.
fn random(rng: &mut Rng, least: Duration, most: Duration) -> Duration {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(rng.u64(millis(least)..=millis(most)))
}

/// `HolderPaused at 1.9 s for 0.4 s, HolderKilled at 4.1 s`
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = Duration::ZERO;
        for (index, step) in self.steps.iter().enumerate() {
            at += step.after;
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{:?} at {:.1} s", step.what.fault, at.as_secs_f64())?;
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
    use crate::faults::Time;
    use std::collections::HashSet;

    const LEASE: Duration = Duration::from_millis(1_500);

    /// As many of them as there are, with three that want the clocks and one that wants the primary.
    fn kit() -> Vec<Possible> {
        let least = Duration::from_secs(2);
        let possible = |fault| Possible {
            fault,
            promised: Outcome::Holds,
            lasts: match fault {
                Fault::HolderKilled => Lasting::Moment,
                Fault::ExecutorStarved => Lasting::Spell(Time { least, most: least }),
                Fault::QuorumLost => Lasting::State(Time { least, most: least * 2 }),
                _ => Lasting::Spell(Time { least, most: least * 2 }),
            },
            claim: match fault {
                Fault::ClientSuspended | Fault::ClientClockJumps | Fault::StoreClockBack => Claim::Clocks,
                Fault::FailOver => Claim::Primary,
                _ => Claim::Nothing,
            },
            lies_in_wait: false,
        };
        Fault::ALL.map(possible).into()
    }

    fn draw(seed: u64) -> Schedule {
        Schedule::draw(seed, &kit(), LEASE)
    }

    #[test]
    fn a_seed_has_one_schedule_and_seeds_have_many() {
        let all: HashSet<String> = (0..100).map(|seed| draw(seed).to_string()).collect();
        assert_eq!(all.len(), 100);
        assert_eq!(draw(7), draw(7));
    }

    #[test]
    fn every_fault_happens_sooner_or_later_several_in_a_round_and_all_of_them_end() {
        let schedules: Vec<Schedule> = (0..300).map(draw).collect();
        for fault in Fault::ALL {
            let drawn = |schedule: &Schedule| schedule.steps.iter().any(|step| step.what.fault == fault);
            assert!(schedules.iter().any(drawn), "never {fault:?}");
        }
        for schedule in &schedules {
            assert!((2..=4).contains(&schedule.steps.len()), "{schedule}");
            let length: Duration = schedule.steps.iter().map(|step| step.after + step.lasts).sum();
            assert!(length <= LEASE * 4 * 4, "{schedule}");
        }
    }

    #[test]
    fn faults_with_conflicting_claims_are_not_drawn_together() {
        for schedule in (0..300).map(draw) {
            let claims = schedule.steps.iter().filter(|step| step.what.claim != Claim::Nothing);
            assert!(claims.count() <= 1, "{schedule}");
            let primary = schedule.steps.iter().position(|step| step.what.claim == Claim::Primary);
            assert!(primary.is_none_or(|place| place + 1 == schedule.steps.len()), "{schedule}");
        }
    }

    #[test]
    fn a_clock_is_not_changed_where_data_are_lost_as_well() {
        let drawn =
            |schedule: &Schedule, is: fn(&Possible) -> bool| schedule.steps.iter().any(|step| is(&step.what));
        for schedule in (0..300).map(draw) {
            let lost = drawn(&schedule, |what| what.fault == Fault::DataLost);
            assert!(!lost || !drawn(&schedule, |what| what.claim == Claim::Primary), "{schedule}");
            let clocks = drawn(&schedule, |what| what.claim == Claim::Clocks);
            assert!(!clocks || !drawn(&schedule, Possible::may_forget), "{schedule}");
        }
    }

    #[test]
    fn a_store_that_can_meet_nothing_has_a_round_all_the_same() {
        assert_eq!(Schedule::draw(7, &[], LEASE).steps, []);
    }

    #[test]
    fn drawn_fault_lasts_as_its_kind_requires() {
        for step in (0..300).flat_map(|seed| draw(seed).steps) {
            match step.what.fault {
                Fault::HolderKilled => assert_eq!(step.lasts, Duration::ZERO),
                Fault::ExecutorStarved => assert_eq!(step.lasts, Duration::from_secs(2)),
                Fault::QuorumLost => assert!(step.lasts >= LEASE, "{step:?}"),
                _ => assert!(step.lasts > Duration::ZERO, "{step:?}"),
            }
            assert!(step.after >= LEASE, "{step:?}");
        }
    }
}
