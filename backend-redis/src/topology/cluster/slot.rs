//! In which of the 16384 slots of a cluster a key lies (redis.io, *Redis cluster specification*, key distribution model).

use std::fmt;

const SLOTS: u16 = 16_384;

/// A slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u16);

impl Slot {
    /// The slot of a key: what stands between its first braces decides, or the whole key if there are none, or nothing
    /// between them.
    pub(crate) fn of(key: &str) -> Self {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        Self(crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS)
    }

    /// The slot of this number, if there is one.
    pub(super) fn numbered(number: i64) -> Option<Self> {
        u16::try_from(number).ok().filter(|number| *number < SLOTS).map(Self)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// CRC-16/XMODEM.
fn crc16(text: &str) -> u16 {
    text.bytes().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_where_the_specification_puts_them() {
        assert_eq!(crc16("123456789"), 0x31C3);
        // As `CLUSTER KEYSLOT` answers.
        for (key, slot) in [("somekey", 11058), ("foo{hash_tag}", 2515), ("bar{hash_tag}", 2515), ("", 0)] {
            assert_eq!(Slot::of(key), Slot(slot), "{key}");
        }
    }

    #[test]
    fn the_first_braces_decide_unless_there_is_nothing_between_them() {
        assert_eq!(Slot::of("{user1000}.following"), Slot::of("user1000"));
        assert_eq!(Slot::of("foo{{bar}}zap"), Slot::of("{bar"));
        assert_eq!(Slot::of("foo{bar}{zap}"), Slot::of("bar"));
        assert_eq!(Slot::of("foo{}{bar}"), Slot(crc16("foo{}{bar}") % SLOTS));
    }
}
