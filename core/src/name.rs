use crate::{Error, Result};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a lock: 1 to 512 bytes of UTF-8 without control characters.
///
/// Names are compared byte by byte on every backend: `A`, `a`, `A ` and `Á` are four locks, and so are the composed and
/// the decomposed form of an accented letter. Nothing is normalised, shortened or hashed.
///
/// Names that end in `::gate`, or in `::slot:` and a number, are the locks that a [`Semaphore`](crate::Semaphore) is made of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid), naming what is wrong and where.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = Self::from_store(name)?;
        if name.semaphore().is_some() {
            let problem = format_args!("{:?} is the name of a part of a semaphore", name.as_str());
            return Err(Error::invalid("lock name", problem, "take another ending than ::gate or ::slot:N"));
        }
        Ok(name)
    }

    /// As [`new`](Self::new), but accepts a part of a semaphore too: for names that were read from a store, and for operators
    /// that look at one.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid), naming what is wrong and where.
    pub fn from_store(name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Error::invalid("lock name", "it is empty", "give it at least one character"));
        }
        if name.len() > Self::MAX_BYTES {
            return Err(Error::invalid(
                "lock name",
                format_args!("{} bytes, limit {}", name.len(), Self::MAX_BYTES),
                "shorten it, or use a digest of it",
            ));
        }
        if let Some((at, control)) = name.char_indices().find(|(_, c)| c.is_control()) {
            return Err(Error::invalid(
                "lock name",
                format_args!("control character U+{:04X} at byte {at}", u32::from(control)),
                "take it out, or percent-encode it",
            ));
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The lock for which the waiters of this semaphore queue.
    pub(crate) fn gate(&self) -> Result<Self> {
        Self::from_store(format!("{self}{GATE}"))
    }

    /// The lock that is one permit of this semaphore.
    pub(crate) fn of_slot(&self, slot: u32) -> Result<Self> {
        Self::from_store(format!("{self}{SLOT}{slot}"))
    }

    /// The name of the semaphore of which this lock is a part.
    pub fn semaphore(&self) -> Option<&str> {
        self.slot_of_semaphore().map(|(name, _)| name).or_else(|| self.0.strip_suffix(GATE))
    }

    /// The slot of a semaphore that this lock is, counted from zero.
    pub fn slot(&self) -> Option<u32> {
        self.slot_of_semaphore().map(|(_, slot)| slot)
    }

    fn slot_of_semaphore(&self) -> Option<(&str, u32)> {
        let (name, digits) = self.0.rsplit_once(SLOT)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
        Some((name, digits.parse().ok().filter(|_| is_number)?))
    }
}

const GATE: &str = "::gate";
const SLOT: &str = "::slot:";

/// The name of a lock in any form: [`LockName`], `&LockName`, `&str`, `String`, `Cow<str>`. A text that is not a lock name is
/// [`Invalid`](crate::ErrorKind::Invalid). Implemented for every conversion to [`LockName`].
pub trait IntoLockName: Send {
    /// The name, checked.
    ///
    /// # Errors
    ///
    /// As [`LockName::new`].
    fn into_lock_name(self) -> Result<LockName>;
}

impl<N: TryInto<LockName, Error: Into<Error>> + Send> IntoLockName for N {
    fn into_lock_name(self) -> Result<LockName> {
        self.try_into().map_err(Into::into)
    }
}

macro_rules! name_of_text {
    ($($text:ty),*) => {$(
        impl TryFrom<$text> for LockName {
            type Error = Error;

            fn try_from(name: $text) -> Result<Self> {
                Self::new(name)
            }
        }
    )*};
}

name_of_text!(&str, String, &String, Cow<'_, str>);

impl FromStr for LockName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl From<&Self> for LockName {
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl<T: AsRef<str> + ?Sized> PartialEq<T> for LockName {
    fn eq(&self, name: &T) -> bool {
        self.as_str() == name.as_ref()
    }
}

impl Serialize for LockName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn valid_name_is_kept_byte_for_byte() {
        for name in ["a", "A ", "../x", "/abs", "{tag}", "zookeeper", "é", "e\u{301}", "🔒", &"x".repeat(512)]
        {
            assert_eq!(LockName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn invalid_name_is_refused_with_value_limit_and_fix() {
        let long = "x".repeat(513);
        let cases = [
            ("", "invalid lock name: it is empty"),
            (&long, "invalid lock name: 513 bytes, limit 512"),
            ("abc\0d", "invalid lock name: control character U+0000 at byte 3"),
            ("a\nb", "invalid lock name: control character U+000A at byte 1"),
            ("a\tb", "invalid lock name: control character U+0009 at byte 1"),
            ("\u{1b}[2J", "invalid lock name: control character U+001B at byte 0"),
            ("é\u{85}", "invalid lock name: control character U+0085 at byte 2"),
            ("a::gate", "invalid lock name: \"a::gate\" is the name of a part of a semaphore"),
            ("a::slot:12", "invalid lock name: \"a::slot:12\" is the name of a part of a semaphore"),
        ];
        for (name, message) in cases {
            let errors = [
                LockName::new(name).unwrap_err(),
                LockName::try_from(name).unwrap_err(),
                LockName::try_from(name.to_owned()).unwrap_err(),
                LockName::try_from(Cow::Borrowed(name)).unwrap_err(),
                name.parse::<LockName>().unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Invalid);
                assert_eq!(error.to_string(), message);
                assert!(error.help().is_some());
            }
            let json = serde_json::to_string(name).unwrap();
            let error = serde_json::from_str::<LockName>(&json).unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }

    #[test]
    fn name_is_read_from_every_form_of_text_and_compared_with_it() {
        let name = LockName::new("job \"é\"").unwrap();
        assert_eq!(name, "job \"é\"");
        assert_eq!(name, *"job \"é\"");
        assert_eq!("job \"é\"".parse::<LockName>().unwrap(), name);
        assert_eq!(LockName::try_from(Cow::from("job \"é\"")).unwrap(), name);
        let json = serde_json::to_string(&name).unwrap();
        assert_eq!(serde_json::from_str::<LockName>(&json).unwrap(), name);
    }

    #[test]
    fn parts_of_a_semaphore_are_no_names_of_users_and_are_recognised() {
        let name = LockName::new("pool").unwrap();
        assert_eq!(name.of_slot(7).unwrap().slot(), Some(7));
        assert_eq!(name.of_slot(7).unwrap().semaphore(), Some("pool"));
        assert_eq!((name.gate().unwrap().slot(), name.gate().unwrap().semaphore()), (None, Some("pool")));
        for similar in
            ["pool::slot:", "pool::slot:x", "pool::slot:+1", "pool::slot:4294967296", "gate", ":gate"]
        {
            assert_eq!(LockName::new(similar).unwrap().semaphore(), None, "{similar}");
        }
        assert!(LockName::new("x".repeat(506)).unwrap().of_slot(0).is_err());
    }
}
