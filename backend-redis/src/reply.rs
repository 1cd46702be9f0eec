//! Parses the replies of the scripts.

use leasehold_core::{
    Attempt, Busy, Error, ErrorKind, FencingToken, Grant, HolderInfo, LockMode, LockName, LockStatus,
    LossCause, OwnerId, Release, Renewal, Result, Waiter,
};
use redis::{FromRedisValue, Value};
use std::time::{Duration, SystemTime};

/// In the place of the owner in the record of a lock that was released and lingers.
const RELEASED: &str = "released";

/// The answer of `acquire.lua` and `acquire_in_turn.lua` for one claim, and the owner's place in the queue, if it waits.
pub(crate) type Acquired = (Attempt, Option<u64>);

/// Splits the reply of a script into the answers for its claims. An answer that is no array holds for every claim.
pub(crate) fn split(reply: Value, claims: usize) -> Vec<Result<Value>> {
    match reply {
        reply if claims == 1 => vec![Ok(reply)],
        Value::Array(answers) if answers.len() == claims => answers.into_iter().map(Ok).collect(),
        reply @ (Value::Int(_) | Value::BulkString(_) | Value::ServerError(_)) => vec![Ok(reply); claims],
        _ => vec![Err(not_understood()); claims],
    }
}

/// The answer of `acquire.lua` and `acquire_in_turn.lua`: a token as text, or the milliseconds that another owner's lease has left,
/// with the place in the queue if the owner waits.
pub(crate) fn acquired(answer: &Value) -> Result<Acquired> {
    let busy = |left| ends_in(left).map_or_else(Busy::new, |ends_in| Busy::new().with_end(ends_in));
    match answer {
        Value::Int(left) => Ok((Attempt::Busy(busy(*left)), None)),
        Value::BulkString(_) => Ok((Attempt::Granted(Grant::new(FencingToken::new(parse(answer)?))), None)),
        Value::Array(_) => {
            let (left, place) = parse(answer)?;
            Ok((Attempt::Busy(busy(left).with_place_in_queue()), Some(place)))
        }
        _ => Err(not_understood()),
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
        Value::Array(parts) => parts.as_slice(),
        _ => &[],
    };
    let [held, Value::Int(held_left), record, Value::Int(record_left), readers @ ..] = parts else {
        return Err(not_understood());
    };
    if !readers.is_empty() {
        let reader = |answer| {
            let (left, record): (i64, Value) = parse(answer)?;
            let mut status = lock_status(name, None, -1, text(&record).as_deref(), left);
            status.mode = LockMode::Shared;
            Ok(status)
        };
        return readers.iter().map(reader).collect();
    }
    let (held, record) = (text(held), text(record));
    Ok(vec![lock_status(name, held.as_deref(), *held_left, record.as_deref(), *record_left)])
}

/// The reply of `waiters.lua`. An entry that is gone makes its place void.
pub(crate) fn waiters(reply: &Value) -> Result<Vec<Waiter>> {
    let Value::Array(parts) = reply else { return Err(not_understood()) };
    let (now, queue) = parts.split_first().ok_or_else(not_understood)?;
    let now: u64 = parse(now)?;
    let waiting = |waiter| {
        let (owner, joined, entry): (String, u64, String) = parse(waiter).ok()?;
        // When it asked last, its lease, its channel, its mode; then its description.
        let description = entry.splitn(5, ' ').nth(4)?;
        let mut waiter = Waiter::new(OwnerId::from_hex(&owner), HolderInfo::from_json(description));
        waiter.waiting = Some(Duration::from_micros(now.saturating_sub(joined)));
        Some(waiter)
    };
    Ok(queue.iter().filter_map(waiting).collect())
}

pub(crate) fn parse<T: FromRedisValue>(reply: &Value) -> Result<T> {
    redis::from_redis_value_ref(reply).map_err(|_| not_understood())
}

/// What lock key and record tell together. A record is `owner token granted_at description`: one line, so that one `SET` writes it
/// with its expiry. It is that of the present grant if the lock key has its owner, or has vanished; beside the lock of another
/// program it tells of an earlier one, and a text of another form is another program's.
fn lock_status(
    name: &LockName,
    held: Option<&str>,
    held_left: i64,
    record: Option<&str>,
    record_left: i64,
) -> LockStatus {
    let mut status = LockStatus::new(name.clone());
    status.ends_in = ends_in(if held.is_some() { held_left } else { record_left });
    let record = record.filter(|record| held.is_none_or(|held| record.split(' ').next() == Some(held)));
    record.and_then(|record| read_record(record, &mut status));
    status
}

fn read_record(record: &str, status: &mut LockStatus) -> Option<()> {
    let mut parts = record.splitn(4, ' ');
    let owner = match parts.next()? {
        RELEASED => None,
        // Behind the owner, a node of Redlock has attempt and place.
        owner => Some(OwnerId::from_hex(owner.split(':').next()?)?),
    };
    let token = FencingToken::new(parts.next()?.parse().ok()?);
    let granted_at = Duration::from_micros(parts.next()?.parse().ok()?);
    let granted_at = SystemTime::UNIX_EPOCH.checked_add(granted_at)?;
    status.holder = HolderInfo::from_json(parts.next()?);
    (status.owner, status.token, status.acquired_at) = (owner, Some(token), Some(granted_at));
    Some(())
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

pub(crate) fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
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

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "0123456789abcdef0123456789abcdef";

    fn status(record: &str) -> LockStatus {
        lock_status(&LockName::new("job").unwrap(), None, -2, Some(record), 5)
    }

    #[test]
    fn record_is_read_as_the_script_writes_it() {
        let status = status(&format!("{OWNER} 7 1000000 {{\"doing\":\"two words\"}}"));
        assert_eq!((status.owner, status.token), (OwnerId::from_hex(OWNER), Some(FencingToken::new(7))));
        assert_eq!(status.acquired_at, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1)));
        assert_eq!((&*status.holder.doing, status.ends_in), ("two words", Some(Duration::from_millis(5))));
    }

    #[test]
    fn released_record_has_no_owner() {
        let status = status("released 7 1000000 {}");
        assert_eq!((status.owner, status.token), (None, Some(FencingToken::new(7))));
    }

    #[test]
    fn record_counts_only_beside_the_lock_of_its_owner() {
        let record = format!("{OWNER} 7 1000000 {{}}");
        let token =
            |held: &str| lock_status(&LockName::new("job").unwrap(), Some(held), 5, Some(&record), 5).token;
        assert_eq!((token(OWNER), token("theirs")), (Some(FencingToken::new(7)), None));
    }

    #[test]
    fn text_of_another_program_is_no_record() {
        for text in [
            "",
            "x",
            "released",
            OWNER,
            &format!("{OWNER} x 1 {{}}"),
            &format!("{OWNER} 1 -1 {{}}"),
            &format!("{OWNER} 1 1"),
        ] {
            let status = status(text);
            assert_eq!((status.owner, status.token, status.acquired_at), (None, None, None), "{text}");
        }
    }
}
