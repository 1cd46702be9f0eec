//! Pairs of names that have one hash of 32 bits.

use std::collections::HashMap;

/// Two names for each hash. They begin with this, and are as long as each other.
pub(super) fn collisions(front: &str) -> Vec<String> {
    HASHES.into_iter().flat_map(|hash| collision(front, hash)).collect()
}

type Hash = fn(&[u8]) -> u32;

/// Hashes that are used as the number of a lock, as in `pg_advisory_lock(hashtext(name))`.
const HASHES: [Hash; 5] = [crc32, fnv1a, |name| times(31, name), |name| times(33, name), hashtext];

/// Two names of one hash, found by trying: after some eighty thousand, two are alike.
fn collision(front: &str, hash: Hash) -> [String; 2] {
    let mut seen = HashMap::new();
    let mut number = 0_u32;
    loop {
        let name = |number: u32| format!("{front}{:08x}", number.wrapping_mul(0x9e37_79b1));
        let new = name(number);
        if let Some(other) = seen.insert(hash(new.as_bytes()), number) {
            return [name(other), new];
        }
        number += 1;
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Java's `hashCode` with 31, and djb2 with 33 but for its start, which is the same for all names of one length.
fn times(factor: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |hash: u32, byte| hash.wrapping_mul(factor).wrapping_add(u32::from(*byte)))
}

/// PostgreSQL's `hashtext`: `hash_any`, Bob Jenkins's lookup3, little-endian.
fn hashtext(bytes: &[u8]) -> u32 {
    let word = |chunk: &[u8], at: usize| {
        (0..4)
            .fold(0, |word, byte| word | u32::from(chunk.get(at + byte).copied().unwrap_or(0)) << (8 * byte))
    };
    let start = 0x9e37_79b9_u32.wrapping_add(bytes.len() as u32).wrapping_add(3_923_095);
    let [mut a, mut b, mut c] = [start; 3];
    let chunks = bytes.chunks_exact(12);
    let rest = chunks.remainder();
    for chunk in chunks {
        a = a.wrapping_add(word(chunk, 0));
        b = b.wrapping_add(word(chunk, 4));
        c = c.wrapping_add(word(chunk, 8));
        for by in [4, 6, 8, 16, 19, 4] {
            (a, c) = (a.wrapping_sub(c) ^ c.rotate_left(by), c.wrapping_add(b));
            (a, b, c) = (b, c, a);
        }
    }
    a = a.wrapping_add(word(rest, 0));
    b = b.wrapping_add(word(rest, 4));
    // The lowest byte of the last word is the length's.
    c = c.wrapping_add(word(rest, 8) << 8);
    for by in [14, 11, 25, 16, 4, 14, 24] {
        c = (c ^ b).wrapping_sub(b.rotate_left(by));
        (a, b, c) = (b, c, a);
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SELECT hashtext('a'), hashtext('leasehold'), hashtext('twelve bytes'), hashtext('more than twelve bytes')`.
    #[test]
    fn hashes_have_their_published_values() {
        let signed = |name: &str| hashtext(name.as_bytes()).cast_signed();
        assert_eq!(
            ["a", "leasehold", "twelve bytes", "more than twelve bytes"].map(signed),
            [1_075_015_857, 267_406_500, 652_846_557, 1_003_777_187]
        );
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
        assert_eq!(times(31, b"Aa"), times(31, b"BB"));
    }

    #[test]
    fn collision_is_of_two_names() {
        for (number, hash) in HASHES.into_iter().enumerate() {
            let [one, other] = collision("front-", hash);
            assert_ne!(one, other, "hash {number}");
            assert_eq!(hash(one.as_bytes()), hash(other.as_bytes()), "hash {number}");
        }
    }
}
