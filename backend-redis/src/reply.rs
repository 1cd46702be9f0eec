//! Parses the replies of the scripts.

use crate::record::Record;
use crate::waiters::QueueScore;
use leasehold_core::{
    Busy, Error, ErrorKind, FencingToken, HolderInfo, LockMode, LockName, LockStatus, LossCause, OwnerId,
    Release, Renewal, Result, Waiter,
};
use redis::Value;
use std::collections::HashMap;
use std::time::Duration;

/// The answer of `acquire.lua` and `acquire_in_turn.lua` for one claim.
#[derive(Debug)]
pub(crate) enum Acquired {
    Granted(FencingToken),
    Busy(Busy),
    /// Busy, and the owner waits at this place.
    Queued(Busy, QueueScore),
}

/// Splits the reply of a script into the answers for its claims. An answer that is no array holds for every claim.
pub(crate) fn split(reply: Value, claims: usize) -> Result<Vec<Value>> {
    match reply {
        reply if claims == 1 => Ok(vec![reply]),
        Value::Array(answers) if answers.len() == claims => Ok(answers),
        reply @ (Value::Int(_) | Value::BulkString(_)) => Ok(vec![reply; claims]),
        _ => Err(not_understood()),
    }
}

/// The answer of `acquire.lua` and `acquire_in_turn.lua`: a token as text, or the milliseconds that another owner's lease has left,
/// with the place in the queue if the owner waits.
pub(crate) fn acquired(answer: &Value) -> Result<Acquired> {
    match answer {
        Value::Int(left) => Ok(Acquired::Busy(busy(*left))),
        Value::BulkString(_) => {
            let token = text(answer).and_then(|text| text.parse().ok());
            token.map(|token| Acquired::Granted(FencingToken::new(token))).ok_or_else(not_understood)
        }
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(left), Value::Int(place)] => {
                let place = u64::try_from(*place).map_err(|_| not_understood())?;
                Ok(Acquired::Queued(busy(*left).with_place_in_queue(), QueueScore(place)))
            }
            _ => Err(not_understood()),
        },
        _ => Err(not_understood()),
    }
}

fn busy(left: i64) -> Busy {
    match ends_in(left) {
        Some(ends_in) => Busy::new().with_end(ends_in),
        None => Busy::new(),
    }
}

/// The answer of `renew.lua` and `renew_shared.lua`.
pub(crate) fn renewal(answer: &Value) -> Result<Renewal> {
    match answer {
        Value::Int(0) => Ok(Renewal::Lost(LossCause::Gone)),
        Value::Int(1) => Ok(Renewal::Renewed),
        Value::Int(2) => Ok(Renewal::Lost(LossCause::Taken)),
        _ => Err(not_understood()),
    }
}

/// The answer of `release.lua`.
pub(crate) fn release(answer: &Value) -> Result<Release> {
    match answer {
        Value::Int(0) => Ok(Release::NotHeld),
        Value::Int(1) => Ok(Release::Released),
        _ => Err(not_understood()),
    }
}

/// The answer of `inspect.lua` and `force_release.lua`: the exclusive hold, or the readers.
pub(crate) fn holds(name: &LockName, answer: &Value) -> Result<Vec<LockStatus>> {
    let parts = match answer {
        Value::Nil => return Ok(Vec::new()),
        Value::Array(parts) => parts,
        _ => return Err(not_understood()),
    };
    let [held, Value::Int(held_left), record, Value::Int(record_left), readers @ ..] = parts.as_slice()
    else {
        return Err(not_understood());
    };
    if !readers.is_empty() {
        return readers.iter().map(|answer| reader(name, answer)).collect();
    }
    let (held, record) = (held_value(held)?, held_value(record)?);
    Ok(vec![lock_status(name, held.as_deref(), *held_left, record.as_deref(), *record_left)])
}

fn reader(name: &LockName, answer: &Value) -> Result<LockStatus> {
    let Value::Array(parts) = answer else { return Err(not_understood()) };
    let [Value::Int(left), record] = parts.as_slice() else { return Err(not_understood()) };
    let mut status = lock_status(name, None, -1, held_value(record)?.as_deref(), *left);
    status.mode = LockMode::Shared;
    Ok(status)
}

/// The reply of `waiters.lua`.
pub(crate) fn waiters(reply: &Value) -> Result<Vec<Waiter>> {
    let Value::Array(parts) = reply else {
        return Err(not_understood());
    };
    let [now, queue @ ..] = parts.as_slice() else {
        return Err(not_understood());
    };
    let now: u64 = text(now).and_then(|now| now.parse().ok()).ok_or_else(not_understood)?;
    Ok(queue.iter().filter_map(|waiter| waiting(waiter, now)).collect())
}

/// One waiter; `None` if its entry is gone, which makes its place void.
fn waiting(waiter: &Value, now: u64) -> Option<Waiter> {
    let Value::Array(parts) = waiter else { return None };
    let [owner, place, entry] = parts.as_slice() else { return None };
    let (owner, place, entry) = (text(owner)?, text(place)?, text(entry)?);
    // Until when it keeps its place, its lease, its channel, its mode; then its description.
    let description = entry.splitn(5, ' ').nth(4)?;
    let mut waiter = Waiter::new(OwnerId::from_hex(&owner), HolderInfo::from_json(description));
    let joined: u64 = place.parse().ok()?;
    waiter.waiting = Some(Duration::from_micros(now.saturating_sub(joined)));
    Some(waiter)
}

/// The reply of `CONFIG GET`.
pub(crate) fn settings(reply: Value) -> Result<HashMap<String, String>> {
    redis::from_redis_value(reply).map_err(|_| not_understood())
}

/// The reply of `SCAN`: where to go on, and keys.
pub(crate) fn scan_page(reply: Value) -> Result<(String, Vec<String>)> {
    redis::from_redis_value(reply).map_err(|_| not_understood())
}

/// What lock key and record tell together. A record is that of the present grant if the lock key has its owner, or has
/// vanished; beside the lock of another program it tells of an earlier one.
fn lock_status(
    name: &LockName,
    held: Option<&str>,
    held_left: i64,
    record: Option<&str>,
    record_left: i64,
) -> LockStatus {
    let mut status = LockStatus::new(name.clone());
    status.ends_in = ends_in(if held.is_some() { held_left } else { record_left });
    let record = record.and_then(Record::parse);
    if let Some(record) = record.filter(|record| held.is_none_or(|held| held == record.lock_value)) {
        status.owner = record.owner;
        status.token = Some(record.token);
        status.holder = record.holder;
        status.acquired_at = Some(record.granted_at);
    }
    status
}

fn held_value(value: &Value) -> Result<Option<String>> {
    match value {
        Value::Nil => Ok(None),
        value => text(value).map(Some).ok_or_else(not_understood),
    }
}

/// What was inspected, if a record of ours tells of it. With an empty prefix, another program's keys may look like ours.
pub(crate) fn only_ours(inspected: Result<Vec<LockStatus>>) -> Result<Vec<LockStatus>> {
    match inspected {
        Ok(holds) => Ok(holds.into_iter().filter(|hold| hold.token.is_some()).collect()),
        Err(error) if error.kind() == ErrorKind::Misconfigured => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A reply, or a part of one, that is text in any of the forms that the two protocols have for it. What is no UTF-8 is
/// shown, and fits nothing.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A remaining time as Redis tells it: negative if there is no end.
fn ends_in(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// A reply that no version of the script gives: the outcome is unknown.
pub(crate) fn not_understood() -> Error {
    Error::new(ErrorKind::Indeterminate, "the server's reply is not one of the script's")
        .with_help("look at what stands between: a proxy may have changed it")
}
