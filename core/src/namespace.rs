use crate::{Error, LockName, Result};
use std::sync::Arc;

/// A prefix of every lock name in the store, so that two applications can share one store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// The longest prefix, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// The namespace of this prefix. [`Invalid`](crate::ErrorKind::Invalid) if it is too long, has a control character, or has
    /// white space around it.
    pub fn new(prefix: &str) -> Result<Self> {
        if prefix.len() > Self::MAX_BYTES {
            let problem = format_args!("{} bytes, limit {}", prefix.len(), Self::MAX_BYTES);
            return Err(Error::invalid("prefix", problem, "shorten it"));
        }
        if prefix.trim() != prefix {
            let problem = format_args!("there is white space around it: {prefix:?}");
            return Err(Error::invalid("prefix", problem, "remove it"));
        }
        if prefix.chars().any(char::is_control) {
            let problem = format_args!("it has a control character: {prefix:?}");
            return Err(Error::invalid("prefix", problem, "take it out"));
        }
        Ok(Self(prefix.into()))
    }

    /// The prefix.
    pub fn prefix(&self) -> &str {
        &self.0
    }

    /// The name under which the store knows a lock.
    pub fn stored(&self, name: &str) -> String {
        [&*self.0, name].concat()
    }

    /// The lock that the store knows under this name, if it is one of this namespace.
    pub fn name(&self, stored: &str) -> Option<LockName> {
        stored.strip_prefix(&*self.0).and_then(|name| LockName::from_store(name).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_name_has_the_prefix_and_loses_it_again() {
        let shop = Namespace::new("shop/").unwrap();
        assert_eq!(shop.stored("a"), "shop/a");
        assert_eq!(shop.name("shop/a").unwrap().as_str(), "a");
        assert_eq!(shop.name("other/a"), None);
        assert_eq!(shop.name("shop/"), None);
        assert_eq!(Namespace::default().stored("a"), "a");
    }

    #[test]
    fn prefix_that_is_too_long_or_has_odd_characters_is_refused() {
        assert!(Namespace::new("a\nb").is_err());
        for prefix in ["shop: ", " shop:", "shop:\n", " ", "shop:\u{a0}"] {
            let error = Namespace::new(prefix).unwrap_err();
            let expected = format!("invalid prefix: there is white space around it: {prefix:?}");
            assert_eq!(error.to_string(), expected);
        }
        let error = Namespace::new(&"x".repeat(129)).unwrap_err();
        assert_eq!(error.to_string(), "invalid prefix: 129 bytes, limit 128");
    }
}
