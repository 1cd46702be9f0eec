use super::nearest::did_you_mean;
use super::part::{decode, invalid, slip_at_ends};
use super::redact;
use leasehold_core::{Error, Result, parse_duration};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The parameters of a URL. The backend takes each parameter that it knows; a parameter that is left, such as a mistyped
/// `timout`, is an error.
///
/// # Errors
///
/// Of every method: [`Invalid`](leasehold_core::ErrorKind::Invalid), naming the parameter and what it may be.
#[derive(Clone)]
pub struct Query {
    pub(super) left: Vec<(String, String)>,
    pub(super) known: Vec<&'static str>,
}

impl Query {
    /// Takes a parameter, if it is given.
    pub fn take(&mut self, key: &'static str) -> Option<String> {
        self.known.push(key);
        let at = self.left.iter().position(|(known, _)| known == key)?;
        Some(self.left.remove(at).1)
    }

    /// Takes a duration such as `1500ms`.
    pub fn take_duration(&mut self, key: &'static str) -> Result<Option<Duration>> {
        self.take(key).map(|text| parse_duration(key, &text)).transpose()
    }

    /// Takes a duration within a range.
    pub fn take_duration_within(
        &mut self,
        key: &'static str,
        range: &RangeInclusive<Duration>,
    ) -> Result<Option<Duration>> {
        let (least, most) = (range.start(), range.end());
        match self.take_duration(key)? {
            Some(short) if short < *least => {
                Err(Error::invalid(key, format_args!("{short:?}, at least {least:?}"), "lengthen it"))
            }
            Some(long) if long > *most => {
                Err(Error::invalid(key, format_args!("{long:?}, at most {most:?}"), "shorten it"))
            }
            duration => Ok(duration),
        }
    }

    /// Takes one of a few words.
    pub fn take_choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.take(key) else { return Ok(None) };
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*choice));
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        Err(Error::invalid(key, format_args!("{text:?}"), format!("use one of: {}", words.join(", "))))
    }

    /// Takes the paths of two files that belong together: a certificate and its key. One without the other is refused.
    pub fn take_files(&mut self, keys: [&'static str; 2]) -> Result<Option<(PathBuf, PathBuf)>> {
        let [missing, given] = match keys.map(|key| self.take(key)) {
            [Some(one), Some(other)] => return Ok(Some((one.into(), other.into()))),
            [None, None] => return Ok(None),
            [None, Some(_)] => keys,
            [Some(_), None] => [keys[1], keys[0]],
        };
        Err(Error::invalid(missing, format_args!("{given} is given without it"), "give both, or none"))
    }

    /// Refuses what is left.
    pub fn finish(self) -> Result<()> {
        let Some((unknown, _)) = self.left.first() else { return Ok(()) };
        Err(invalid(format_args!("unknown parameter {unknown:?}"), did_you_mean(unknown, self.known)))
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.left.iter().map(|(key, _)| key)).finish()
    }
}

pub(super) fn split(query: &str) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(invalid("a parameter of its query has no value", "write key=value"));
        };
        let key = decode("query", key)?;
        check(&pairs, &key, value)?;
        pairs.push((key, decode("query", value)?));
    }
    Ok(pairs)
}

/// Refuses a parameter that is given twice, and a [slip at the ends](slip_at_ends) of a value, such as the name of a table. In a
/// secret it may be meant, and so it may if it is percent-encoded.
pub(super) fn check(pairs: &[(String, String)], key: &str, value: &str) -> Result<()> {
    if pairs.iter().any(|(known, _)| known == key) {
        return Err(invalid(format_args!("{key:?} is given twice"), "leave one of them out"));
    }
    match slip_at_ends("it", value).filter(|_| !redact::is_secret(key)) {
        Some(slip) => Err(Error::invalid(key, format_args!("{slip}: {value:?}"), "remove it")),
        None => Ok(()),
    }
}
