use leasehold_core::{FencingToken, Grant, LocalQueue};

/// The most tokens that one grant reserves in a row.
const MOST_IN_A_ROW: u32 = LocalQueue::MAX_GRANTS;

/// How far a token may be ahead of the clock before the two are told apart by their distance alone: more than the most in a
/// row. The statements that grant have the same number.
const NEAR: u64 = 2_000;

/// The tokens of a grant: that of its holder, and those behind it that are reserved for other tasks of its process.
///
/// A row has its last token, and the time of the grant. Several in a row are granted only if the clock has passed the last
/// token of the name, and then the first of them *is* the time, in microseconds. So a row says both ends without a column
/// for the other, and tables of earlier versions need not change. To a program of an earlier version the last token is the
/// grant's, and what it grants next is larger. (If it takes a row whose last token is ahead of the clock, this reads the first of
/// several from it, and shows that; the next grant is larger all the same.)
///
/// One token alone may be ahead of the clock, after that was set back. It must not look like the last of several that began
/// at the time of the grant: if it is ahead by no more than [`NEAR`], it is entered as that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// The holder's.
    pub(crate) first: FencingToken,
    /// The row's. The next grant's is larger.
    pub(crate) last: FencingToken,
}

impl Tokens {
    /// Of a row with this token, granted at this time; 0 for a row that was never granted.
    pub(crate) fn of_row(last: FencingToken, acquired_at: i64) -> Self {
        let first = u64::try_from(acquired_at).ok().filter(|first| {
            let more = last.get().checked_sub(*first);
            *first > 0 && more.is_some_and(|more| more < u64::from(MOST_IN_A_ROW))
        });
        Self { first: first.map_or(last, FencingToken::new), last }
    }

    /// Of a name with this last token, at this time by the store's clock: so many in a row, if the clock has passed that one.
    /// And the time to enter into the row. `None` when the numbers are used up.
    #[cfg(feature = "_server")]
    pub(crate) fn after(last: FencingToken, now: u64, more: u32) -> Option<(Self, u64)> {
        let first = FencingToken::after(Some(last), now)?;
        let several = Self { first, last: first.last_of(more + 1) };
        if first.get() == now && several.last.get() <= FencingToken::MAX_COUNTED {
            return Some((several, now));
        }
        let is_near = first.get() - now <= NEAR;
        Some((Self { last: first, ..several }, if is_near { first.get() } else { now }))
    }

    pub(crate) fn grant(self) -> Grant {
        let more = u32::try_from(self.last.get() - self.first.get()).unwrap_or(0);
        Grant::new(self.first).with_tokens(more + 1)
    }
}

/// How many tokens behind its first a claim can use.
pub(crate) fn more(wanted: u32) -> u32 {
    wanted.min(MOST_IN_A_ROW) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000_000;

    fn token(ahead: i64) -> FencingToken {
        FencingToken::new((NOW + ahead).cast_unsigned())
    }

    #[test]
    fn a_row_says_both_ends() {
        for (ahead, first) in [(-1, -1), (0, 0), (1, 0), (1023, 0), (1024, 1024), (9_000_000, 9_000_000)] {
            let tokens = Tokens::of_row(token(ahead), NOW);
            assert_eq!((tokens.first, tokens.last), (token(first), token(ahead)));
        }
        assert_eq!(Tokens::of_row(FencingToken::new(9), 0).first, FencingToken::new(9), "never granted");
        assert_eq!(Tokens::of_row(FencingToken::new(9), -1).first, FencingToken::new(9), "written by hand");
    }

    #[test]
    fn so_many_are_granted_as_lie_between_the_ends() {
        assert_eq!(Tokens::of_row(token(0), NOW).grant().tokens, 1);
        let several = Tokens::of_row(token(63), NOW).grant();
        assert_eq!((several.token, several.tokens), (token(0), 64));
        assert_eq!((more(1), more(64), more(5_000)), (0, 63, 1023));
    }

    /// Whatever the last token was, and wherever the clock has gone since.
    #[cfg(feature = "_server")]
    #[test]
    fn what_is_entered_is_read_as_it_was_granted() {
        for ahead in (-3_000..3_000).chain([-3_600_000_000, 3_600_000_000]) {
            for wanted in [1, 2, 64, 1024] {
                let last = token(ahead);
                let (granted, at) = Tokens::after(last, NOW.cast_unsigned(), more(wanted)).unwrap();
                assert!(granted.first > last);
                assert_eq!(granted.grant().tokens, if ahead < 0 { wanted } else { 1 }, "{ahead}");
                assert_eq!(Tokens::of_row(granted.last, at.cast_signed()), granted, "{ahead}");
            }
        }
    }

    #[cfg(feature = "_server")]
    #[test]
    fn the_last_numbers_are_granted_one_by_one() {
        let most = FencingToken::MAX_COUNTED;
        let (alone, _) = Tokens::after(FencingToken::new(most - 9), most - 5, more(64)).unwrap();
        assert_eq!(alone.grant().tokens, 1);
        assert_eq!(Tokens::after(FencingToken::new(most), most, more(1)), None);
    }
}
