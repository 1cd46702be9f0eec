use serde::{Deserialize, Serialize};
use std::fmt;

/// A number that grows with every grant of a name. Pass it to the resource that the lock protects, and let the
/// resource refuse a number lower than the highest it has seen: then a holder that wakes up after its lease can do no
/// harm (Kleppmann, *How to do distributed locking*, 2016).
///
/// No two grants share one, and renewal does not change it. Numbers may be skipped, and only tokens of one name on one
/// store can be compared. [`TokenClass`](crate::TokenClass) says what the order survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The largest token that Redis, SQL and memory give: 2⁵³ − 1, because Lua counts in doubles and loses the `+ 1`
    /// above it. Microseconds since 1970 reach it in the year 2255.
    pub const MAX_COUNTED: u64 = (1 << 53) - 1;

    /// The token with this number. For backends and tests.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The token as a number, as it goes into a query.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The rule of Redis, SQL and memory for the next token: `max(last + 1, server clock in µs)`. It grows across
    /// restarts and lost counters because time does, and across a clock that steps back because the counter does. `None`
    /// when the numbers are used up.
    pub fn after(last: Option<Self>, clock_micros: u64) -> Option<Self> {
        let next = last.map_or(0, |last| last.0).saturating_add(1).max(clock_micros);
        (next <= Self::MAX_COUNTED).then_some(Self(next))
    }
}

/// For columns of SQL, which have no unsigned numbers. Saturates; no backend of this workspace gives a token above `i64::MAX`.
impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_token_is_larger_whatever_the_clock_shows() {
        let first = FencingToken::after(None, 1_000);
        assert_eq!(first, Some(FencingToken::new(1_000)));
        assert_eq!(FencingToken::after(first, 10), Some(FencingToken::new(1_001)));
        assert_eq!(FencingToken::after(first, 1_000), Some(FencingToken::new(1_001)));
        assert_eq!(FencingToken::after(first, 5_000), Some(FencingToken::new(5_000)));
    }

    #[test]
    fn used_up_tokens_are_not_repeated() {
        let last = Some(FencingToken::new(FencingToken::MAX_COUNTED));
        assert_eq!(FencingToken::after(last, 0), None);
    }
}
