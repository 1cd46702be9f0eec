//! The answers of a backend and of its administrator's side, and the wrong ones that are given instead.

use crate::mutant::unknown;
use crate::mutation::{A_HINT, ALIKE, Mutation, changed, cut, micros_in_32_bits, whole_seconds};
use crate::values::{QUEUED, SOUND, TELLING, Values};
use leasehold_core::{
    Attempt, Busy, Error, ErrorKind, FencingToken, Grant, HoldKind, HolderInfo, LockMode, LockName,
    LockStatus, LossCause, OwnerId, Release, Renewal, Result, Waiter,
};
use std::time::Duration;

pub(crate) fn attempts() -> Vec<Mutation> {
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
        }),
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
        changed(
            "`queued` of a `Busy`",
            "false, where there is a place",
            Values {
                attempt: |attempt| {
                    busy(attempt, |mut busy| {
                        busy.queued = false;
                        Ok(Attempt::Busy(busy))
                    })
                },
                ..QUEUED
            },
        )
        .under("ACGH"),
        of("`ends_in` of a `Busy`", "endless", |attempt| {
            busy(attempt, |_| Ok(Attempt::Busy(Busy::new().with_end(Duration::MAX))))
        })
        .excused(A_HINT),
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

pub(crate) fn tokens() -> Vec<Mutation> {
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

pub(crate) fn renewals() -> Vec<Mutation> {
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

pub(crate) fn releases() -> Vec<Mutation> {
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

pub(crate) fn statuses() -> Vec<Mutation> {
    const STATUS: &str = "answer of `inspect`";
    let of = |value, change, status| changed(value, change, Values { status, ..SOUND });
    vec![
        of(STATUS, "nobody", |_| None),
        of(STATUS, "held, of a free lock", |status| {
            status.or_else(|| LockName::new("x").ok().map(LockStatus::new))
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
                forced: |status| status.or_else(|| LockName::new("x").ok().map(LockStatus::new)),
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

pub(crate) fn lists() -> Vec<Mutation> {
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

/// The same mistakes, made with readers alone, or with writers beside readers.
pub(crate) fn by_mode() -> Vec<Mutation> {
    const OF_ALL: [&str; 5] = [
        "answers to a batch",
        "`only_if` of a forced release",
        "held, of a free lock",
        "`ends_in` of a `Busy`",
        "`queued` of a `Busy`",
    ];
    let readers: fn(LockMode) -> bool = LockMode::is_shared;
    let writers: fn(LockMode) -> bool = |mode| mode == LockMode::Write;
    let of = |(holders, of_mode)| {
        let all = [attempts(), renewals(), releases(), statuses()].into_iter().flatten();
        let is_of_all =
            |mutation: &Mutation| OF_ALL.contains(&mutation.value) || OF_ALL.contains(&mutation.change);
        let found = all.filter(move |mutation| mutation.excuse.is_none() && !is_of_all(mutation));
        found.map(move |mutation| {
            let values = Values { of_mode, ..mutation.values };
            Mutation { holders, values, families: "DET", ..mutation }
        })
    };
    [("readers", readers), ("writers", writers)].into_iter().flat_map(of).collect()
}

/// Mutations of several holds of one name, and of those that the store tells of.
pub(crate) fn holds() -> Vec<Mutation> {
    use LockMode::{Exclusive, Shared, Write};
    const MODE: &str = "`mode` of a status";
    const SUSPECTS: &str = "answer of `suspects`";
    let mode = |change, status| changed(MODE, change, Values { status, ..SOUND }).under("CT");
    let of = |change, statuses| {
        changed("several holds of a name", change, Values { statuses, ..SOUND }).under("CT")
    };
    let told = |change, suspects| {
        changed(SUSPECTS, change, Values { suspects: Some(suspects), ..TELLING }).under("DE")
    };
    vec![
        mode("`Shared` for `Exclusive`", |status| with_mode(status, Exclusive, Shared)),
        mode("`Write` for `Exclusive`", |status| with_mode(status, Exclusive, Write)).excused(ALIKE),
        mode("`Shared` for `Write`", |status| with_mode(status, Write, Shared)),
        mode("`Exclusive` for `Write`", |status| with_mode(status, Write, Exclusive)).excused(ALIKE),
        mode("`Exclusive` for `Shared`", |status| with_mode(status, Shared, Exclusive)),
        mode("`Write` for `Shared`", |status| with_mode(status, Shared, Write)),
        of("the other way round", |holds| holds.into_iter().rev().collect())
            .excused("the contract names no order of the holds of a name"),
        of("without the first", |holds| {
            let several = usize::from(holds.len() > 1);
            holds.into_iter().skip(several).collect()
        }),
        of("without the last", |mut holds| {
            holds.truncate(1.max(holds.len().saturating_sub(1)));
            holds
        }),
        of("the first one for each", |mut holds| {
            let first = holds.first().cloned();
            holds.iter_mut().zip(first.into_iter().cycle()).for_each(|(hold, first)| *hold = first);
            holds
        }),
        told("nobody", |_, _| Vec::new()),
        told("another owner", |_, _| vec![OwnerId::from_u128(7)]),
        told("all that hold, and not the one", |_, held| held),
        told("the owner, and all that hold", |owner, mut held| {
            held.push(owner);
            held
        })
        .excused("a hint: each of them is renewed once more"),
        changed(
            SUSPECTS,
            "all that hold, every millisecond",
            Values { suspects_every: Some(Duration::from_millis(1)), ..TELLING },
        )
        .under("DE")
        .excused("a hint: the core follows a few between two renewals, and E14 bounds the cost"),
    ]
}

fn with_mode(status: Option<LockStatus>, from: LockMode, to: LockMode) -> Option<LockStatus> {
    status.map(|mut status| {
        status.mode = if status.mode == from { to } else { status.mode };
        status
    })
}

pub(crate) fn waiters() -> Vec<Mutation> {
    const WAITERS: &str = "answer of `waiters`";
    let of = |change, waiters| changed(WAITERS, change, Values { waiters, ..QUEUED }).under("CH");
    vec![
        of("one more", |queues, name| {
            let mut waiters = (SOUND.waiters)(queues, name);
            waiters.extend(waiters.last().is_some().then(|| Waiter::new(None, HolderInfo::default())));
            waiters
        }),
        of("without the first", |queues, name| (SOUND.waiters)(queues, name).into_iter().skip(1).collect()),
        of("without the last", |queues, name| {
            let mut waiters = (SOUND.waiters)(queues, name);
            waiters.pop();
            waiters
        }),
        of("the other way round", |queues, name| (SOUND.waiters)(queues, name).into_iter().rev().collect()),
        of("of all names", |queues, _| queues.values().flatten().cloned().collect()),
        of("nobody", |_, _| Vec::new()),
        changed(
            WAITERS,
            "one, of a store without a queue",
            Values { waiters: |_, _| vec![Waiter::new(None, HolderInfo::default())], ..SOUND },
        ),
    ]
}
