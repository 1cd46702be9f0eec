//! Each parameter and each answer of [`LockBackend`](leasehold_core::LockBackend), and the wrong values that it is given.

use crate::answers;
use crate::mutation::{ALIKE, Mutation, changed, cut, micros_in_32_bits, whole_seconds};
use crate::values::{HINTING, Hints, OF_HINTS, SOUND, Values};
use leasehold_core::{Fairness, HoldKind, LockMode, LossSignal, WakeUp};
use std::time::Duration;

/// Each way to change a duration, for one place in which there is one.
macro_rules! durations {
    ($of:literal, $field:ident) => {
        [
            changed($of, "a tenth of it", Values { $field: |time| time / 10, ..SOUND }),
            changed($of, "ten times as long", Values { $field: |time| time * 10, ..SOUND }),
            changed($of, "whole seconds, rounded down", Values { $field: whole_seconds, ..SOUND }),
            changed($of, "µs in 32 bits", Values { $field: micros_in_32_bits, ..SOUND }),
            changed($of, "ms in 32 bits", Values { $field: millis_in_32_bits, ..SOUND }).excused(A_DAY_FITS),
        ]
    };
}

const A_DAY_FITS: &str = "24 h are 86,400,000 ms, and 32 bits hold 2,147,483,647";

fn millis_in_32_bits(time: Duration) -> Duration {
    Duration::from_millis((time.as_millis() as i32).unsigned_abs().into())
}

pub(crate) fn all() -> Vec<Mutation> {
    let mut all = Vec::new();
    all.extend(names());
    all.extend(modes());
    all.extend(durations!("ttl of an attempt", granted_for));
    all.extend(durations!("ttl of a renewal", renewed_for));
    all.extend(durations!("linger of a release", lingers_for));
    all.extend(answers::attempts());
    all.extend(answers::tokens());
    all.extend(answers::renewals());
    all.extend(answers::releases());
    all.extend(answers::statuses());
    all.extend(answers::lists());
    all.extend(answers::holds());
    all.extend(answers::waiters());
    all.extend(declarations());
    all.extend(answers::by_mode());
    all
}

fn names() -> Vec<Mutation> {
    const NAME: &str = "name of a claim";
    let of = |change, name| changed(NAME, change, Values { name, ..SOUND });
    vec![
        of("the first 64 bytes", |name| cut(name, 64)),
        of("the first 255 bytes", |name| cut(name, 255)),
        of("the last 255 bytes", |name| name.chars().rev().take(255).collect()),
        of("trimmed", |name| name.trim().to_owned()),
        of("without blanks at its end", |name| name.trim_end().to_owned()),
        of("without dots at its ends", |name| name.trim_matches('.').to_owned()),
        of("in lower case", str::to_lowercase),
        of("in lower case, ASCII only", str::to_ascii_lowercase),
        of("ASCII only", |name| name.replace(|c: char| !c.is_ascii(), "?")),
        of("without accents", |name| name.replace(['é', '\u{301}'], "e").replace('É', "E")),
        of("as a number", |name| {
            name.parse::<f64>().map_or_else(|_| name.to_owned(), |number| number.to_string())
        }),
        of("up to the first colon", |name| before(name, ':')),
        of("up to the last slash", |name| name.rsplit_once('/').map_or(name, |(front, _)| front).to_owned()),
        of("with one slash for several", |name| name.replace("//", "/")),
        of("the text in braces", |name| {
            name.split(['{', '}']).nth(1).filter(|tag| !tag.is_empty()).unwrap_or(name).to_owned()
        }),
        of("percent-decoded", |name| name.replace("%7B", "{").replace("%25", "%")),
        of("its Java hash code", |name| java_hash(name).to_string()),
        of("its length", |name| name.len().to_string()),
        of("the same for all", |_| "lock".to_owned()),
        changed(
            "name with its prefix",
            "without the prefix",
            Values { stored: |_, name| name.to_owned(), ..SOUND },
        ),
        changed(
            "name with its prefix",
            "the first 512 bytes",
            Values { stored: |prefix, name| cut(&[prefix, name].concat(), 512), ..SOUND },
        ),
        changed(
            "name with its prefix",
            "the prefix not twice",
            Values {
                stored: |prefix, name| [prefix, name.strip_prefix(prefix).unwrap_or(name)].concat(),
                ..SOUND
            },
        ),
        changed("owner of a claim", "the same for all", Values { owner: |_| 7, ..SOUND }),
        changed(
            "owner of a claim",
            "64 bits of it",
            Values { owner: |owner| owner & u128::from(u64::MAX), ..SOUND },
        )
        .excused("64 random bits meet once in four thousand million owners: no case can take so many locks"),
        changed("holder of a claim", "nothing", Values { holder: |_| String::new(), ..SOUND }),
        changed(
            "holder of a claim",
            "the first 32 bytes",
            Values { holder: |holder| cut(holder, 32), ..SOUND },
        ),
        changed("holder of a claim", "in lower case", Values { holder: str::to_lowercase, ..SOUND }),
    ]
}

/// Both ways round of three modes: each is given as each other one.
const NEXT: fn(LockMode) -> LockMode = |mode| match mode {
    LockMode::Exclusive => LockMode::Shared,
    LockMode::Shared => LockMode::Write,
    _ => LockMode::Exclusive,
};
const LAST: fn(LockMode) -> LockMode = |mode| match mode {
    LockMode::Shared => LockMode::Exclusive,
    LockMode::Exclusive => LockMode::Write,
    _ => LockMode::Shared,
};

fn modes() -> Vec<Mutation> {
    use LockMode::{Exclusive, Shared, Write};
    const BY_OWNER: &str = "\"a claim is known by its owner alone\", says the contract";
    let of = |value, change, values| changed(value, change, values).under("CT");
    let asked = |change, granted_mode| of("mode of an attempt", change, Values { granted_mode, ..SOUND });
    let renewed = |change, renewed_mode| of("mode of a renewal", change, Values { renewed_mode, ..SOUND });
    let released = |change, released_mode| of("mode of a release", change, Values { released_mode, ..SOUND });
    vec![
        asked("`Shared` for `Exclusive`", |mode| if mode == Exclusive { Shared } else { mode }),
        asked("`Write` for `Exclusive`", |mode| if mode == Exclusive { Write } else { mode }).excused(ALIKE),
        asked("`Shared` for `Write`", |mode| if mode == Write { Shared } else { mode }),
        asked("`Exclusive` for `Write`", |mode| if mode == Write { Exclusive } else { mode }).excused(ALIKE),
        asked("`Exclusive` for `Shared`", |mode| if mode == Shared { Exclusive } else { mode }),
        asked("`Write` for `Shared`", |mode| if mode == Shared { Write } else { mode }),
        renewed("the next one", NEXT).excused(BY_OWNER),
        renewed("the one before", LAST).excused(BY_OWNER),
        released("the next one", NEXT).excused(BY_OWNER),
        released("the one before", LAST).excused(BY_OWNER),
    ]
}

fn before(name: &str, separator: char) -> String {
    name.split_once(separator).map_or(name, |(front, _)| front).to_owned()
}

fn java_hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
}

fn declarations() -> Vec<Mutation> {
    let of = |value, change, semantics| changed(value, change, Values { semantics, ..SOUND });
    let hinted = |change, hints| {
        changed("`changed` where waiters are told", change, Values { hints, ..HINTING }).under(OF_HINTS)
    };
    vec![
        changed("`changed`", "at once, always", Values { hints: Hints::Always(Duration::ZERO), ..SOUND })
            .excused("a hint: the core asks 200 times a second at most, and this store lets its waiters ask as often"),
        hinted("at once, always, beside what is told", Hints::Always(Duration::ZERO)),
        hinted("never", Hints::Never),
        hinted("late", Hints::Freed { late: Duration::from_millis(400), of_others: false }),
        hinted("when another lock was freed", Hints::Freed { late: Duration::ZERO, of_others: true }),
        hinted("once, too early", Hints::Once),
        changed("`renewal_group`", "each claim its own", Values { group: |owner| owner as u64, ..SOUND })
            .excused("an optimisation only, says the contract"),
        of("`fairness`", "`Fifo`", |mut semantics| {
            semantics.fairness = Fairness::Fifo;
            semantics
        }),
        of("`loss_signal`", "`Push`", |mut semantics| {
            semantics.loss_signal = LossSignal::Push;
            semantics
        }),
        of("`hold`", "`Connection`", |mut semantics| {
            semantics.hold = HoldKind::Connection;
            semantics
        }),
        of("`wake_up`", "`Push`, and nobody is told", |mut semantics| {
            semantics.wake_up = WakeUp::Push { fallback: Duration::from_secs(2) };
            semantics
        }),
        of("`wake_up`", "once in an hour", |mut semantics| {
            semantics.wake_up = WakeUp::Poll { at_most: Duration::from_secs(3_600) };
            semantics
        }),
    ]
}
