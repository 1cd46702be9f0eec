use leasehold_core::OwnerId;
use std::fmt::{self, Write};
use std::ops::Deref;

/// As long as the longest number.
const MOST: usize = 39;

/// An owner or a number as a script wants it: text, but not on the heap.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    bytes: [u8; MOST],
    length: u8,
}

impl Word {
    /// In 32 hexadecimal digits.
    pub(crate) fn owner(owner: OwnerId) -> Self {
        let mut word = Self::empty();
        for byte in owner.as_u128().to_be_bytes() {
            word.push(hex(byte >> 4));
            word.push(hex(byte & 15));
        }
        word
    }

    /// In decimal digits.
    pub(crate) fn number(number: impl Into<u128>) -> Self {
        let mut word = Self::empty();
        // Never an error: there is room for every number.
        let _ = write!(word, "{}", number.into());
        word
    }

    fn empty() -> Self {
        Self { bytes: [0; MOST], length: 0 }
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.length)) {
            *place = byte;
            self.length += 1;
        }
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Write for Word {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

impl fmt::Debug for Word {
    /// Never in full: it may be an owner, and an owner is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word of {} digits", self.length)
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
            assert_eq!(*Word::owner(owner), owner.to_hex());
        }
    }

    #[test]
    fn every_number_has_room() {
        for number in [0, 7, 30_000, u128::MAX] {
            assert_eq!(*Word::number(number), number.to_string());
        }
    }
}
