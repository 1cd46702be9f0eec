use crate::{Error, ErrorKind, Moment, Result};
use std::fmt;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Who holds or wants a lock: 128 random bits, fresh for every acquisition.
///
/// Never a thread, host, process or object id: those outlive one acquisition, so a late release of the last one would
/// free the next. Made before the first request, so that a request whose reply was lost can be recognised and undone.
///
/// It is what authorises a release, so it is a secret towards other tenants of the store: `Debug` and `Display` show
/// the first eight of its 32 digits, which leaves 96 bits unguessable; only [`to_hex`](Self::to_hex) gives all.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId([u8; 16]);

impl OwnerId {
    /// A new owner, from the operating system's random source.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](ErrorKind::Unavailable) if the system has no randomness to give.
    pub fn random() -> Result<Self> {
        // Asked for each time, which is a fifth of what a lock in memory costs: what was drawn in advance is drawn twice by two
        // virtual machines that go on from one snapshot.
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the system gave no random bytes").with_source(error)
        })?;
        Ok(Self(bytes))
    }

    /// The owner with this number. For backends that read owners back from their store, and for tests.
    pub const fn from_u128(id: u128) -> Self {
        Self(id.to_be_bytes())
    }

    /// Another owner, as hard to guess as this one to whoever does not know this one.
    pub(crate) const fn next(self) -> Self {
        Self::from_u128(self.as_u128().wrapping_add(1))
    }

    /// As [`next`](Self::next), for one who begins anew at this moment: none that it may have had before.
    pub(crate) const fn anew(self, now: Moment) -> Self {
        Self::from_u128(self.as_u128().wrapping_add(now.nanos() as u128))
    }

    /// The owner as 16 bytes, as it is kept in binary columns.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The owner of exactly 16 bytes, `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The owner as a number.
    pub const fn as_u128(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// The owner in 32 lower-case hexadecimal digits, as it is stored; redis-py and node-redlock write theirs likewise.
    pub fn to_hex(self) -> String {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
    }

    /// The owner written in exactly 32 hexadecimal digits, `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        digits.then(|| u128::from_str_radix(text, 16).ok().map(Self::from_u128)).flatten()
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}…", self.as_u128() >> 96)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_nothing_else_parses() {
        let owner = OwnerId::random().unwrap();
        assert_eq!(OwnerId::from_hex(&owner.to_hex()), Some(owner));
        assert_eq!(OwnerId::from_u128(7).to_hex().len(), 32);
        for text in ["", "7", "+0000000000000000000000000000007", &"g".repeat(32), &"0".repeat(33)] {
            assert_eq!(OwnerId::from_hex(text), None);
        }
    }

    #[test]
    fn bytes_round_trip_and_nothing_else_is_read() {
        let owner = OwnerId::random().unwrap();
        assert_eq!(OwnerId::from_bytes(&owner.to_bytes()), Some(owner));
        assert_eq!(OwnerId::from_u128(7).to_bytes()[15], 7);
        for bytes in [&[0; 15][..], &[0; 17], &[]] {
            assert_eq!(OwnerId::from_bytes(bytes), None);
        }
    }

    #[test]
    fn what_is_printed_does_not_authorise_a_release() {
        let owner = OwnerId::from_u128(0xdead_beef_0123_4567_89ab_cdef_0000_0001);
        assert_eq!(format!("{owner} {owner:?}"), "deadbeef… OwnerId(deadbeef…)");
    }
}
