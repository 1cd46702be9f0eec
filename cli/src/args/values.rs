//! Values on the command line, each parsed once.

use leasehold::{Error, LockName, Result, Wait};
use leasehold_console::duration;
use std::ffi::OsStr;
use std::time::Duration;

/// The name of a lock to be acquired, from the command line.
pub(crate) fn lock_name(word: &OsStr) -> Result<LockName> {
    LockName::new(text(word)?)
}

/// The name of a lock to be looked at, or to be taken from its holder: it may be a part of a semaphore.
pub(crate) fn stored_name(word: &OsStr) -> Result<LockName> {
    LockName::from_store(text(word)?)
}

fn text(word: &OsStr) -> Result<&str> {
    let not_text = || Error::invalid("lock name", "it is not UTF-8", "use UTF-8, or percent-encode it");
    word.to_str().ok_or_else(not_text)
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(Duration);

impl From<Seconds> for Wait {
    fn from(time: Seconds) -> Self {
        Self::from(time.0)
    }
}

/// `10s`, `forever`, or a plain number of seconds, which is what flock(1) takes.
pub(super) fn wait(text: &str) -> Result<Seconds, String> {
    if text == "forever" {
        return Ok(Seconds(Duration::MAX));
    }
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if !plain {
        return duration(text).map(Seconds);
    }
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.map(Seconds).ok_or_else(|| "it is no number of seconds; write it like 10s".to_owned())
}

/// Text to look for. Empty, as from a variable that is not set, it would be found in everything.
pub(super) fn some_text(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is empty, and would be part of everything".to_owned());
    }
    Ok(text.to_owned())
}

/// A pair for the description of the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) key: String,
    pub(crate) value: String,
}

pub(super) fn info(text: &str) -> Result<Info, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok(Info { key: key.to_owned(), value: value.to_owned() }),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_parsed_as_seconds_or_with_a_unit() {
        let waits = [
            ("0", Wait::No),
            ("0.0", Wait::No),
            ("2", Wait::UpTo(Duration::from_secs(2))),
            (".5", Wait::UpTo(Duration::from_millis(500))),
            ("1500ms", Wait::UpTo(Duration::from_millis(1500))),
            ("0s", Wait::No),
            ("forever", Wait::Forever),
        ];
        for (text, expected) in waits {
            assert_eq!(Wait::from(wait(text).unwrap()), expected, "{text}");
        }
        for odd in ["", ".", "1.2.3", "-1", "soon", "1e3", "99999999999999999999999", "٣"] {
            assert!(wait(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn info_is_a_pair() {
        let pair = info("a=b=c").unwrap();
        assert_eq!((pair.key.as_str(), pair.value.as_str()), ("a", "b=c"));
        assert!(info("a").is_err());
        assert!(info("=b").is_err());
    }
}
