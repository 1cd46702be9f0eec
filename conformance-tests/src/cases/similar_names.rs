//! K: names that a store might take for one. All of a group are held at once: each was granted while the others were held.

use super::names::all_at_once;
use crate::cases::prelude::*;
use std::collections::HashMap;
use std::sync::OnceLock;

pub(super) const CASES: CaseTable = cases![
    K07 names_of_one_number_or_one_word_differ,
    K08 names_with_one_32_bit_hash_differ,
    K09 names_that_look_like_companion_keys_differ,
    K10 names_that_begin_or_end_alike_differ,
];

/// Without anything in front of them: a store that trims, or that compares a column of text with a number, looks at the whole
/// name.
async fn names_of_one_number_or_one_word_differ(cx: &Context) -> Verdict {
    let n = fastrand::u32(100_000..1_000_000);
    let thousandth = f64::from(n) / 1000.0;
    let numbers = [
        format!("{n}"),
        format!("0{n}"),
        format!("00{n}"),
        format!("{n}.0"),
        format!("{n}."),
        format!("{n}e0"),
        format!("{thousandth}e3"),
        format!("+{n}"),
        format!("0x{n:x}"),
        format!(".{n}"),
        format!("..{n}"),
        format!("{n}.."),
        format!(" {n}"),
        format!("{n} "),
        format!("  {n}"),
        format!("\u{a0}{n}"),
        format!("{n}\u{3000}"),
        format!("\u{ff11}{n}"),
        format!("1{n}"),
    ];
    all_at_once(cx, &bare(cx, &numbers)).await?;
    all_at_once(cx, &bare(cx, &WORDS.map(|word| format!("{word}{n}")))).await?;
    all_at_once(cx, &bare(cx, &WORDS.map(|word| format!("{n}{word}")))).await
}

/// Alike but for case, accents, and the forms in which Unicode has a letter. `\u{212a}` is Kelvin's K.
const WORDS: [&str; 18] = [
    "k", "K", "\u{212a}", "s", "S", "ſ", "fi", "ﬁ", "e", "E", "é", "e\u{301}", "É", "ss", "ß", "ẞ", "İ",
    "i\u{307}",
];

/// Names as long as each other, and alike but for their last digits.
async fn names_with_one_32_bit_hash_differ(cx: &Context) -> Verdict {
    // Found once in a process, because it takes a while; with all that stands before them, which is hashed, too.
    static FOUND: OnceLock<(String, Vec<String>)> = OnceLock::new();
    let root = cx.root();
    let find = || {
        let front = format!("{root}{:06x}-", fastrand::u32(..1 << 24));
        let pairs = HASHES.iter().flat_map(|(_, hash)| collision(&front, *hash));
        (root.to_owned(), pairs.map(|name| name[root.len()..].to_owned()).collect())
    };
    let found = FOUND.get_or_init(find);
    let (_, names) = if found.0 == root { found } else { &find() };
    all_at_once(cx, &bare(cx, names)).await
}

/// What a backend might keep beside a lock, as locks of their own. The plain name comes first, and then last.
async fn names_that_look_like_companion_keys_differ(cx: &Context) -> Verdict {
    const AFTER: [&str; 25] = [
        "",
        ":holder",
        ":token",
        ":fence",
        ":fencing",
        ":queue",
        ":waiters",
        ":waiter",
        ":lock",
        ":lease",
        ":owner",
        ":shared",
        ":readers",
        ":writer",
        ":count",
        ":ttl",
        ":channel",
        ":meta",
        ":info",
        ":1",
        "/lock",
        "/lock-0000000000",
        ".lock",
        "_lock",
        "-lock-",
    ];
    let base = format!("k{:08x}", fastrand::u32(..));
    let mut names: Vec<String> = AFTER.iter().map(|after| format!("{base}{after}")).collect();
    for front in ["lock:", "token:", "fence:", "queue:", "leasehold:", "redlock:", "__READ__", "__WRIT__"] {
        names.push(format!("{front}{base}"));
    }
    names.extend(
        [":holder", ":token", ":queue", ":waiters", ":fence"].map(|after| format!("{{{base}}}{after}")),
    );
    let mut names = bare(cx, &names);
    all_at_once(cx, &names).await?;
    names.reverse();
    all_at_once(cx, &names).await
}

/// A name, and what begins or ends with it; and the longest names, which differ in one byte at the front, in the middle, at the
/// end.
async fn names_that_begin_or_end_alike_differ(cx: &Context) -> Verdict {
    let base = format!("{:08x}", fastrand::u32(..));
    let mut names: Vec<String> =
        ["", "/", "//", "/a", "/a/b", "a", "aa", "1", "11", ":", "::", "{}", "%", "*", "a/"]
            .iter()
            .map(|after| format!("{base}{after}"))
            .collect();
    names.extend(["/", ":", "a", "1", "a/"].map(|front| format!("{front}{base}")));
    let room = LockName::MAX_BYTES - cx.bare(&base).as_str().len();
    for at in [None, Some(0), Some(room / 2), Some(room - 1)] {
        let mut long = vec![b'x'; room];
        at.into_iter().for_each(|at| long[at] = b'y');
        let long = String::from_utf8_lossy(&long).into_owned();
        let (front, back) = long.split_at(room / 2);
        names.push(format!("{front}{base}{back}"));
    }
    all_at_once(cx, &bare(cx, &names)).await
}

/// Names that begin with nothing but what all names of a run begin with. They are unique by a number in them.
fn bare(cx: &Context, names: &[String]) -> Vec<LockName> {
    names.iter().map(|name| cx.bare(name)).collect()
}

type Hash = fn(&[u8]) -> u32;

/// Hashes that are used as the number of a lock, as in `pg_advisory_lock(hashtext(name))`.
const HASHES: &[(&str, Hash)] = &[
    ("crc32", crc32),
    ("fnv", fnv1a),
    ("java", |name| times(31, name)),
    ("djb2", |name| times(33, name)),
    ("hashtext", hashtext),
];

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
    fn hashes_are_the_ones_that_they_are_called() {
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
    fn collisions_are_of_two_names() {
        for (hash, of) in HASHES {
            let [one, other] = collision("front-", *of);
            assert_ne!(one, other, "{hash}");
            assert_eq!(of(one.as_bytes()), of(other.as_bytes()), "{hash}");
        }
    }
}
