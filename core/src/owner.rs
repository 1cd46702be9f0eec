use crate::{Error, ErrorKind, Result};
use std::fmt;

/// The owner of one acquisition: 128 random bits, fresh for each.
///
/// Never the id of a thread or process: a late release of its last acquisition would free the next. Made before the first
/// request, so that a request whose reply was lost can be recognised and undone.
///
/// It authorises a release, so it is a secret towards other tenants of the store: `Debug` and `Display` show the first
/// eight of its 32 digits, which leaves 96 bits unguessable.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId([u8; 16]);

impl OwnerId {
    /// A new owner, from the operating system's random source; [`Unavailable`](ErrorKind::Unavailable) if it gives none.
    pub fn random() -> Result<Self> {
        // Drawn each time: two virtual machines that go on from one snapshot would use up the same reserve.
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
        format!("{:032x}", self.as_u128())
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
    fn hex_is_read_back_and_other_text_is_refused() {
        let owner = OwnerId::random().unwrap();
        assert_eq!(OwnerId::from_hex(&owner.to_hex()), Some(owner));
        assert_eq!(OwnerId::from_u128(7).to_hex().len(), 32);
        for text in ["", "7", "+0000000000000000000000000000007", &"g".repeat(32), &"0".repeat(33)] {
            assert_eq!(OwnerId::from_hex(text), None);
        }
    }

    #[test]
    fn bytes_are_read_back_and_other_lengths_are_refused() {
        let owner = OwnerId::random().unwrap();
        assert_eq!(OwnerId::from_bytes(&owner.to_bytes()), Some(owner));
        assert_eq!(OwnerId::from_u128(7).to_bytes()[15], 7);
        for bytes in [&[0; 15][..], &[0; 17], &[]] {
            assert_eq!(OwnerId::from_bytes(bytes), None);
        }
    }

    #[test]
    fn printed_owner_does_not_authorise_a_release() {
        let owner = OwnerId::from_u128(0xdead_beef_0123_4567_89ab_cdef_0000_0001);
        assert_eq!(format!("{owner} {owner:?}"), "deadbeef… OwnerId(deadbeef…)");
    }
}
