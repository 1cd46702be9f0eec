//! Each parameter and each answer of [`LockBackend`](leasehold_core::LockBackend), and the wrong values that it is given.

use crate::mutant::{SOUND, Values, unknown};
use leasehold_core::{
    Attempt, Busy, Error, ErrorKind, FencingToken, Grant, HoldKind, HolderInfo, LockStatus, LossCause,
    OwnerId, Release, Renewal, Result,
};
use std::time::Duration;

/// One value, changed in one way.
pub(crate) struct Mutation {
    pub(crate) value: &'static str,
    pub(crate) change: &'static str,
    pub(crate) values: Values,
    /// Why it is no mistake, or none that a store in memory can show.
    pub(crate) excuse: Option<&'static str>,
}

const fn changed(value: &'static str, change: &'static str, values: Values) -> Mutation {
    Mutation { value, change, values, excuse: None }
}

impl Mutation {
    const fn excused(mut self, excuse: &'static str) -> Self {
        self.excuse = Some(excuse);
        self
    }
}

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

const A_HINT: &str = "a hint: a waiter asks at its interval, whatever the hint says";
const A_DAY_FITS: &str = "24 h are 86,400,000 ms, and 32 bits hold 2,147,483,647";

fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

fn micros_in_32_bits(time: Duration) -> Duration {
    Duration::from_micros((time.as_micros() as u32).into())
}

fn millis_in_32_bits(time: Duration) -> Duration {
    Duration::from_millis((time.as_millis() as i32).unsigned_abs().into())
}

pub(crate) fn all() -> Vec<Mutation> {
    let mut all = Vec::new();
    all.extend(names());
    all.extend(durations!("ttl of an attempt", granted_for));
    all.extend(durations!("ttl of a renewal", renewed_for));
    all.extend(durations!("linger of a release", lingers_for));
    all.extend(attempts());
    all.extend(tokens());
    all.extend(renewals());
    all.extend(releases());
    all.extend(statuses());
    all.extend(lists());
    all.extend(declarations());
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

fn cut(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

fn before(name: &str, separator: char) -> String {
    name.split_once(separator).map_or(name, |(front, _)| front).to_owned()
}

fn java_hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
}

fn attempts() -> Vec<Mutation> {
    const GRANTED: &str = "`Granted`";
    const BUSY: &str = "`Busy`";
    let of = |value, change, attempt| changed(value, change, Values { attempt, ..SOUND });
    vec![
        of(GRANTED, "`Busy`", |attempt| granted(attempt, |_| Ok(Attempt::Busy(Busy::new())))),
        of(GRANTED, "`Unavailable`", |attempt| granted(attempt, |_| Err(down()))),
        of(GRANTED, "`Indeterminate`", |attempt| granted(attempt, |_| Err(unknown()))),
        of("`lease` of a grant", "nothing", |attempt| {
            granted(attempt, |grant| Ok(Attempt::Granted(grant.with_lease(Duration::ZERO))))
        }),
        of("`lease` of a grant", "a tenth of a second", |attempt| {
            granted(attempt, |grant| Ok(Attempt::Granted(grant.with_lease(Duration::from_millis(100)))))
        }),
        of("`lease` of a grant", "an hour", |attempt| {
            granted(attempt, |grant| Ok(Attempt::Granted(grant.with_lease(Duration::from_secs(3_600)))))
        })
        .excused("a time longer than the ttl changes nothing, says the contract"),
        of("`handed_over` of a grant", "true", |attempt| {
            granted(attempt, |grant| Ok(Attempt::Granted(grant.from_hand_over())))
        })
        .excused("the lease is then counted from earlier, and believed in for a shorter time"),
        of(BUSY, "`Granted`", |attempt| {
            busy(attempt, |_| Ok(Attempt::Granted(Grant::new(FencingToken::new(u64::MAX)))))
        }),
        of(BUSY, "`Unavailable`", |attempt| busy(attempt, |_| Err(down()))),
        of(BUSY, "`Indeterminate`", |attempt| busy(attempt, |_| Err(unknown()))),
        of("`ends_in` of a `Busy`", "nothing", |attempt| {
            busy(attempt, |_| Ok(Attempt::Busy(Busy::new().with_end(Duration::ZERO))))
        })
        .excused(A_HINT),
        of("`ends_in` of a `Busy`", "ten times as long", |attempt| {
            busy(attempt, |busy| {
                Ok(Attempt::Busy(Busy::new().with_end(busy.ends_in.unwrap_or_default() * 10)))
            })
        })
        .excused(A_HINT),
        of("`ends_in` of a `Busy`", "not known", |attempt| busy(attempt, |_| Ok(Attempt::Busy(Busy::new()))))
            .excused(A_HINT),
        of("`queued` of a `Busy`", "true", |attempt| {
            busy(attempt, |busy| Ok(Attempt::Busy(busy.with_place_in_queue())))
        })
        .excused("a release follows that finds nothing to end"),
    ]
}

fn granted(attempt: Result<Attempt>, change: fn(Grant) -> Result<Attempt>) -> Result<Attempt> {
    match attempt? {
        Attempt::Granted(grant) => change(grant),
        busy => Ok(busy),
    }
}

fn busy(attempt: Result<Attempt>, change: fn(Busy) -> Result<Attempt>) -> Result<Attempt> {
    match attempt? {
        Attempt::Busy(busy) => change(busy),
        granted => Ok(granted),
    }
}

fn down() -> Error {
    Error::new(ErrorKind::Unavailable, "the store is down")
}

fn tokens() -> Vec<Mutation> {
    let of = |change, token| changed("token", change, Values { token, ..SOUND });
    vec![
        of("always the same", |_| 7),
        of("smaller each time", |token| u64::MAX - token),
        of("whole seconds", |token| token / 1_000_000),
        of("8 bits, near their end", |token| (token + 200) & 0xff),
        of("32 bits, near their end", |token| u64::from((token as u32).wrapping_add(u32::MAX - 1_000_000))),
        of("zero", |_| 0),
    ]
}

fn renewals() -> Vec<Mutation> {
    const RENEWED: &str = "`Renewed`";
    const LOST: &str = "`Lost`";
    let of = |value, change, renewal| changed(value, change, Values { renewal, ..SOUND });
    let list = |change, renewals| changed("answers to a batch", change, Values { renewals, ..SOUND });
    vec![
        of(RENEWED, "`Held`", |renewal| {
            Ok(if renewal == Renewal::Renewed { Renewal::Held } else { renewal })
        }),
        of(RENEWED, "`Lost(Gone)`", |renewal| {
            Ok(if renewal == Renewal::Renewed { Renewal::Lost(LossCause::Gone) } else { renewal })
        }),
        of(
            RENEWED,
            "`Unavailable`",
            |renewal| if renewal == Renewal::Renewed { Err(down()) } else { Ok(renewal) },
        ),
        of(RENEWED, "`Indeterminate`", |renewal| {
            if renewal == Renewal::Renewed { Err(unknown()) } else { Ok(renewal) }
        }),
        of(LOST, "`Renewed`", |_| Ok(Renewal::Renewed)),
        of(LOST, "`Held`", |renewal| Ok(if renewal == Renewal::Renewed { renewal } else { Renewal::Held })),
        of(
            LOST,
            "`Unavailable`",
            |renewal| if renewal == Renewal::Renewed { Ok(renewal) } else { Err(down()) },
        ),
        of(
            LOST,
            "`Indeterminate`",
            |renewal| if renewal == Renewal::Renewed { Ok(renewal) } else { Err(unknown()) },
        ),
        of("`Lost(Gone)`", "`Lost(Taken)`", |renewal| Ok(lost(renewal, LossCause::Gone, LossCause::Taken))),
        of("`Lost(Taken)`", "`Lost(Gone)`", |renewal| Ok(lost(renewal, LossCause::Taken, LossCause::Gone))),
        of("`Lost(Gone)`", "`Lost(Expired)`", |renewal| {
            Ok(lost(renewal, LossCause::Gone, LossCause::Expired))
        }),
        list("the other way round", |answers| answers.into_iter().rev().collect()),
        list("each in the next one's place", |mut answers| {
            if !answers.is_empty() {
                answers.rotate_right(1);
            }
            answers
        }),
        list("the losses first", |mut answers| {
            answers.sort_by_key(|answer| matches!(answer, Ok(Renewal::Renewed)));
            answers
        }),
        list("the losses last", |mut answers| {
            answers.sort_by_key(|answer| !matches!(answer, Ok(Renewal::Renewed)));
            answers
        }),
        list("the first one's for all", |answers| vec![answers[0].clone(); answers.len()]),
        list("lost if any is", |answers| {
            let lost = answers.iter().find(|answer| matches!(answer, Ok(Renewal::Lost(_)))).cloned();
            lost.map_or(answers.clone(), |lost| vec![lost; answers.len()])
        }),
        list("without the last", |mut answers| {
            answers.pop();
            answers
        }),
    ]
}

fn lost(renewal: Renewal, from: LossCause, to: LossCause) -> Renewal {
    if renewal == Renewal::Lost(from) { Renewal::Lost(to) } else { renewal }
}

fn releases() -> Vec<Mutation> {
    let of = |value, change, release| changed(value, change, Values { release, ..SOUND });
    vec![
        of("`Released`", "`NotHeld`", |_| Ok(Release::NotHeld)),
        of("`Released`", "`Unavailable`", |release| {
            if release == Release::Released { Err(down()) } else { Ok(release) }
        }),
        of("`Released`", "`Indeterminate`", |release| {
            if release == Release::Released { Err(unknown()) } else { Ok(release) }
        })
        .excused("it is made again, and then there is nothing to end: the core takes that for its success"),
        of("`NotHeld`", "`Released`", |_| Ok(Release::Released)),
        of(
            "`NotHeld`",
            "`Unavailable`",
            |release| if release == Release::NotHeld { Err(down()) } else { Ok(release) },
        ),
        of("`NotHeld`", "`Indeterminate`", |release| {
            if release == Release::NotHeld { Err(unknown()) } else { Ok(release) }
        }),
    ]
}

fn statuses() -> Vec<Mutation> {
    const STATUS: &str = "answer of `inspect`";
    let of = |value, change, status| changed(value, change, Values { status, ..SOUND });
    vec![
        of(STATUS, "nobody", |_| None),
        of(STATUS, "held, of a free lock", |status| {
            status.or_else(|| leasehold_core::LockName::new("x").ok().map(LockStatus::new))
        }),
        of("`owner` of a status", "nobody", |status| with(status, |status| status.owner = None))
            .excused("\"the owner, as far as it may be shown\": a store need not show it"),
        of("`owner` of a status", "always the same", |status| {
            with(status, |status| status.owner = Some(OwnerId::from_u128(7)))
        }),
        of("`token` of a status", "the next one", |status| {
            with(status, |status| status.token = status.token.map(|token| FencingToken::new(token.get() + 1)))
        }),
        of("`token` of a status", "none", |status| with(status, |status| status.token = None)),
        of("`holder` of a status", "nobody", |status| {
            with(status, |status| status.holder = HolderInfo::default())
        }),
        of("`acquired_at` of a status", "not known", |status| {
            with(status, |status| status.acquired_at = None)
        })
        .excused("for people only"),
        of("`ends_in` of a status", "a tenth of it", |status| {
            with(status, |status| status.ends_in = status.ends_in.map(|left| left / 10))
        }),
        of("`ends_in` of a status", "ten times as long", |status| {
            with(status, |status| status.ends_in = status.ends_in.map(|left| left * 10))
        }),
        of("`ends_in` of a status", "whole seconds, rounded down", |status| {
            with(status, |status| status.ends_in = status.ends_in.map(whole_seconds))
        }),
        of("`ends_in` of a status", "µs in 32 bits", |status| {
            with(status, |status| status.ends_in = status.ends_in.map(micros_in_32_bits))
        }),
        of("`ends_in` of a status", "always the same", |status| {
            with(status, |status| status.ends_in = status.ends_in.map(|_| Duration::from_secs(1)))
        }),
        of("`ends_in` of a status", "never", |status| with(status, |status| status.ends_in = None)),
        of("`hold` of a status", "a connection", |status| {
            with(status, |status| status.hold = HoldKind::Connection)
        }),
        changed("`only_if` of a forced release", "nothing", Values { only_if: |_| None, ..SOUND }),
        changed("answer of `force_release`", "nobody", Values { forced: |_| None, ..SOUND }),
        changed(
            "answer of `force_release`",
            "held, of a free lock",
            Values {
                forced: |status| {
                    status.or_else(|| leasehold_core::LockName::new("x").ok().map(LockStatus::new))
                },
                ..SOUND
            },
        ),
    ]
}

fn with(status: Option<LockStatus>, change: fn(&mut LockStatus)) -> Option<LockStatus> {
    status.map(|mut status| {
        change(&mut status);
        status
    })
}

fn lists() -> Vec<Mutation> {
    let of = |change, list| changed("answer of `list`", change, Values { list, ..SOUND });
    let by = |change, prefix| changed("prefix of `list`", change, Values { prefix, ..SOUND });
    vec![
        of("the other way round", |list| list.into_iter().rev().collect()),
        of("without the last", |mut list| {
            list.pop();
            list
        }),
        of("nothing", |_| Vec::new()),
        of("each twice", |list| list.into_iter().flat_map(|status| [status.clone(), status]).collect()),
        by("nothing", |_| String::new()),
        by("without its last letter", |prefix| cut(prefix, prefix.len().saturating_sub(1))),
        by("up to a wildcard", |prefix| {
            prefix.split(['%', '_', '*', '?', '[']).next().unwrap_or_default().to_owned()
        }),
    ]
}

fn declarations() -> Vec<Mutation> {
    use leasehold_core::{Fairness, LossSignal, WakeUp};
    let of = |value, change, semantics| changed(value, change, Values { semantics, ..SOUND });
    vec![
        changed("`changed`", "at once, always", Values { changes: Some(Duration::ZERO), ..SOUND })
            .excused(A_HINT),
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
