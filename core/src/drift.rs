use crate::Moment;
use std::time::Duration;

/// The allowance for drift between clocks: `valid_until = sent_at + ttl·(1 − rate) − margin`.
///
/// `sent_at` lies before the send, and the store starts its lease after it, so the holder's lease ends first as long as the
/// rates of the two clocks differ by less than `rate`. Redlock allows for the same 1 % + 2 ms (redis.io, *Distributed Locks
/// with Redis*). No difference in what the clocks *show* matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    per_mille: u32,
    margin: Duration,
}

impl Drift {
    /// 1 % and 2 ms.
    pub const DEFAULT: Self = Self { per_mille: 10, margin: Duration::from_millis(2) };

    /// A rate in thousandths, at most 500, and a margin for rounding.
    pub const fn new(per_mille: u32, margin: Duration) -> Self {
        let per_mille = if per_mille > 500 { 500 } else { per_mille };
        Self { per_mille, margin }
    }

    /// When a lease of `ttl`, asked for at `sent_at`, ends for its holder.
    pub(crate) fn valid_until(self, sent_at: Moment, ttl: Duration) -> Moment {
        sent_at.plus((ttl / 1000 * (1000 - self.per_mille)).saturating_sub(self.margin))
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_counts_a_shorter_lease_than_the_store() {
        let end = |ttl| Drift::DEFAULT.valid_until(Moment::ORIGIN, ttl).since(Moment::ORIGIN);
        assert_eq!(end(Duration::from_secs(10)), Duration::from_millis(9_898));
        assert_eq!(end(Duration::from_millis(50)), Duration::from_micros(47_500));
        assert_eq!(end(Duration::from_millis(1)), Duration::ZERO);
    }
}
