use leasehold_core::OwnerId;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// As long as an owner, and longer than any number.
const MOST: usize = 32;

/// An owner or a number as a script wants it: text, but not on the heap.
#[derive(Clone, Copy)]
pub(crate) struct ScriptArg {
    /// The text is at the end.
    bytes: [u8; MOST],
    begin: u8,
}

impl ScriptArg {
    /// In 32 hexadecimal digits.
    pub(crate) fn owner(owner: OwnerId) -> Self {
        let mut bytes = [0; MOST];
        for (digits, byte) in bytes.chunks_exact_mut(2).zip(owner.to_bytes()) {
            digits.copy_from_slice(&[hex(byte >> 4), hex(byte & 15)]);
        }
        Self { bytes, begin: 0 }
    }

    /// In whole milliseconds, rounded up: others are kept out for at least as long as was asked for, and zero means not at all.
    pub(crate) fn at_least(time: Duration) -> Self {
        Self::number(u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// In decimal digits.
    pub(crate) fn number(number: impl Into<u64>) -> Self {
        let mut word = Self { bytes: [0; MOST], begin: MOST as u8 };
        let mut left = number.into();
        for place in word.bytes.iter_mut().rev() {
            *place = b'0' + (left % 10) as u8;
            left /= 10;
            word.begin -= 1;
            if left == 0 {
                break;
            }
        }
        word
    }
}

impl Deref for ScriptArg {
    type Target = str;

    fn deref(&self) -> &str {
        let bytes = self.bytes.get(usize::from(self.begin)..).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Debug for ScriptArg {
    /// Never in full: it may be an owner, and an owner is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScriptArg of {} digits", self.len())
    }
}

fn hex(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_written_as_everywhere_else() {
        for id in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0fed_cba9_8765_4321] {
            let owner = OwnerId::from_u128(id);
            assert_eq!(*ScriptArg::owner(owner), owner.to_hex());
        }
    }

    #[test]
    fn every_number_has_room() {
        for number in [0, 7, 10, 30_000, u64::MAX] {
            assert_eq!(*ScriptArg::number(number), number.to_string());
        }
    }

    #[test]
    fn a_time_is_not_cut_short() {
        for (nanos, millis) in [(0, "0"), (1, "1"), (1_000_000, "1"), (1_000_001, "2")] {
            assert_eq!(*ScriptArg::at_least(Duration::from_nanos(nanos)), *millis);
        }
    }
}
