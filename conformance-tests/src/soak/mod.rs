//! Random faults at random moments under random clients, round after round. What a round chooses, it chooses by its seed.
//!
//! A round has a store of its own, processes that [contend](crate::history) for one lock, and a schedule of faults: of those
//! of the [matrix](crate::matrix), each that the store can meet and under which it promises anything. The history is
//! recorded, and [checked](crate::checker). Where two owners are possible, that is what the tokens must show.
//!
//! | looking for | it is in |
//! |---|---|
//! | what is drawn, and what never together | `schedule.rs` |
//! | a round from its store to its verdict: faults that are prepared and made, the processes that they hit | `round.rs` |

mod round;
mod schedule;

pub use round::Round;

use crate::lateness;
use crate::run_config::RunConfig;
use crate::runner::in_runtime;
use crate::subject::Subject;
use crate::time_scale::millis;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Round after round, each on the next of some subjects.
#[derive(Debug)]
pub struct Soak {
    subjects: Vec<Arc<dyn Subject>>,
    config: RunConfig,
    directory: PathBuf,
}

impl Soak {
    /// Rounds over these subjects in turn, which make their random choices from this seed; if there is none, from that of
    /// `LEASEHOLD_SEED`, or from one of their own. Worker processes are this program, executed again: see
    /// [`serve_as_worker`](crate::serve_as_worker). Histories are written to this directory; what is rejected is kept there.
    pub fn new(subjects: Vec<Arc<dyn Subject>>, seed: Option<u64>, directory: impl Into<PathBuf>) -> Self {
        let mut config = RunConfig::from_environment();
        config.seed = seed.unwrap_or(config.seed);
        Self { subjects, config, directory: directory.into() }
    }

    /// What the random choices are made from.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// Cancelled, from any thread, it ends a round early.
    pub fn interrupt(&self) -> CancellationToken {
        self.config.interrupt.clone()
    }

    /// Runs the round of this number, here and now; `None` if it was interrupted, or there are no subjects. Blocks this
    /// thread: call it from one that no runtime needs.
    pub fn round(&self, number: u64) -> Option<Round> {
        lateness::watch();
        let turn = usize::try_from(number).unwrap_or(usize::MAX) % self.subjects.len().max(1);
        let subject = Arc::clone(self.subjects.get(turn)?);
        let (seed, start) = (seed_of_round(self.config.seed, number), Instant::now());
        let mut round = Round::new(number, subject.name(), seed);
        let config = RunConfig { seed, ..self.config.clone() };
        let played = round.play(subject, config, &self.directory);
        round.outcome = in_runtime(self.config.interrupt.cancelled(), played)?.into();
        round.took_ms = millis(start.elapsed());
        Some(round)
    }
}

/// The first round has the seed that was given, so that any round can be made the first. Others are 2^64 over the golden ratio apart.
fn seed_of_round(seed: u64, number: u64) -> u64 {
    seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
