//! What the keys of a lock are called.
//!
//! The first is `prefix` + name, as of clients that lock by `SET key value NX PX`; the others are `{prefix name}:holder` and so on. The
//! guide `docs/redis.md` has a table of them.
//!
//! All lie in one slot of a cluster: the part of a key between its first braces decides the slot, or the whole
//! key if it has none. So `{`, `}` and `%` in a *name* are percent-encoded: a lock key has no braces of its own, and no
//! name can be mistaken for another's record. With a prefix such as `{shop}:` the user has chosen the slot, and the
//! braces around the name only distinguish its companions, which are all keys but the first.

use leasehold_core::{Error, LockName, Namespace, Result};
use std::borrow::Cow;

const HOLDER: &str = "}:holder";
const TOKEN: &str = "}:token";
const QUEUE: &str = "}:queue";
const OWNERS: &str = "}:owners";
const SHARED: &str = "}:shared";

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
    /// What stands before the name in a companion key: `{prefix` or `prefix{`.
    before_companion: String,
}

/// The keys of one name, in the order in which the scripts want them: lock, holder, owners, token, queue, shared.
#[derive(Debug)]
pub(crate) struct LockKeys([String; 6]);

impl LockKeys {
    pub(crate) fn all(&self) -> [&str; 6] {
        self.0.each_ref().map(String::as_str)
    }

    pub(crate) fn lock(&self) -> &str {
        &self.0[0]
    }
}

impl Keys {
    /// The keys of a namespace; [`Invalid`](leasehold_core::ErrorKind::Invalid) if its prefix has a brace that is no part of one hash
    /// tag.
    pub(crate) fn new(namespace: &Namespace) -> Result<Self> {
        let prefix = namespace.prefix().to_owned();
        let before_companion = match braces(&prefix).as_slice() {
            [] => format!("{{{prefix}"),
            [(open, '{'), (close, '}')] if open + 1 < *close => format!("{prefix}{{"),
            _ => {
                let problem = format_args!("{prefix:?} has a brace that is no part of one hash tag");
                let fix = "take the braces out, or put one pair around what decides the slot: {shop}:";
                return Err(Error::invalid("prefix", problem, fix));
            }
        };
        Ok(Self { prefix, before_companion })
    }

    pub(crate) fn of(&self, name: &LockName) -> LockKeys {
        let name = encode(name.as_str());
        let companion = |kind| format!("{}{name}{kind}", self.before_companion);
        let [holder, owners, token, queue, shared] = [HOLDER, OWNERS, TOKEN, QUEUE, SHARED].map(companion);
        LockKeys([format!("{}{name}", self.prefix), holder, owners, token, queue, shared])
    }

    /// The channel on which the waiters of this client hear of their grants. Without spaces: in the entry of a waiter it
    /// is a word among others. Each space becomes one `_`, so that the pattern in an ACL rule still matches.
    pub(crate) fn channel(&self, client: &str) -> String {
        format!("{}grants:{client}", self.prefix.replace(' ', "_"))
    }

    /// Patterns for `SCAN`, each with the type of its keys, that find a key of every name that is held and begins with `start`.
    pub(crate) fn held_patterns(&self, start: &str) -> [(String, &'static str); 2] {
        let names = format!("{}{}*", literal(&self.before_companion), literal(&encode(start)));
        [(format!("{names}{HOLDER}"), "string"), (format!("{names}{SHARED}"), "zset")]
    }

    /// The name that is held if this key exists, if it is one of this namespace.
    pub(crate) fn held_name(&self, key: &str) -> Option<LockName> {
        let name = key.strip_prefix(&*self.before_companion)?;
        let name = name.strip_suffix(HOLDER).or_else(|| name.strip_suffix(SHARED))?;
        LockName::from_store(decode(name)?).ok()
    }
}

/// The Redis type of a companion key. `None` for any other key.
pub(crate) fn companion_kind(key: &str) -> Option<&'static str> {
    let kinds = [(HOLDER, "string"), (TOKEN, "string"), (QUEUE, "zset"), (OWNERS, "hash"), (SHARED, "zset")];
    kinds.into_iter().find(|(suffix, _)| key.ends_with(suffix)).map(|(_, kind)| kind)
}

fn braces(text: &str) -> Vec<(usize, char)> {
    text.char_indices().filter(|(_, c)| matches!(c, '{' | '}')).collect()
}

/// The name without braces. Different names get different keys: only what the encoding itself needs is encoded.
fn encode(name: &str) -> Cow<'_, str> {
    if !name.contains(['{', '}', '%']) {
        return name.into();
    }
    let encoded = name.replace('%', "%25").replace('{', "%7B");
    encoded.replace('}', "%7D").into()
}

/// The name that was encoded, `None` if this is no encoding of ours.
fn decode(encoded: &str) -> Option<String> {
    let decoded = encoded.replace("%7D", "}").replace("%7B", "{").replace("%25", "%");
    (encode(&decoded) == encoded).then_some(decoded)
}

/// The text as a pattern that matches nothing but itself.
fn literal(text: &str) -> String {
    let escaped = |c: char| "*?[]^-\\".contains(c).then_some('\\').into_iter().chain([c]);
    text.chars().flat_map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(prefix: &str) -> Keys {
        Keys::new(&Namespace::new(prefix).unwrap()).unwrap()
    }

    fn lock_keys(prefix: &str, name: &str) -> LockKeys {
        keys(prefix).of(&LockName::new(name).unwrap())
    }

    /// What decides the slot of a key (redis.io, *Redis cluster specification*, hash tags).
    fn slot_of(key: &str) -> &str {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
    }

    const ODD: [&str; 14] = [
        "job",
        "job:holder",
        "job}:holder",
        "{job}",
        "{job}:holder",
        "{}",
        "}{",
        "%",
        "%7B",
        "%257B",
        "{%7B",
        "a b/é🔒",
        "*?[a-z]\\^",
        "100%",
    ];

    #[test]
    fn ordinary_name_is_its_own_key() {
        let keys = lock_keys("leasehold:", "invoice/42 *?[é]");
        let all = [
            "leasehold:invoice/42 *?[é]",
            "{leasehold:invoice/42 *?[é]}:holder",
            "{leasehold:invoice/42 *?[é]}:owners",
            "{leasehold:invoice/42 *?[é]}:token",
            "{leasehold:invoice/42 *?[é]}:queue",
            "{leasehold:invoice/42 *?[é]}:shared",
        ];
        assert_eq!(keys.all(), all);
        assert_eq!(keys.lock(), all[0]);
        assert_eq!(lock_keys("", "job").lock(), "job");
        assert_eq!(lock_keys("{shop}:", "job").all()[1], "{shop}:{job}:holder");
    }

    #[test]
    fn keys_of_a_name_lie_in_one_slot() {
        for prefix in ["", "leasehold:", "{shop}:", "a{b}c"] {
            for name in ODD {
                let keys = lock_keys(prefix, name);
                for key in keys.all() {
                    assert_eq!(slot_of(keys.lock()), slot_of(key), "{keys:?}");
                }
            }
        }
    }

    #[test]
    fn different_names_share_no_key() {
        for prefix in ["", "leasehold:", "{shop}:"] {
            let mut all = std::collections::HashSet::new();
            for name in ODD {
                let keys = lock_keys(prefix, name);
                assert!(keys.all().into_iter().all(|key| all.insert(key.to_owned())), "{keys:?}");
            }
        }
    }

    #[test]
    fn holder_key_gives_its_name_and_no_other_key_does() {
        for prefix in ["", "leasehold:", "{shop}:"] {
            for name in ODD {
                let found = keys(prefix).held_name(lock_keys(prefix, name).all()[1]);
                assert_eq!(found.unwrap().as_str(), name);
            }
        }
        for key in
            ["", "leasehold:job", "{leasehold:}:holder", "{leasehold:%7b}:holder", "{leasehold:a}:token"]
        {
            assert_eq!(keys("leasehold:").held_name(key), None, "{key}");
        }
    }

    #[test]
    fn scan_pattern_takes_no_name_for_a_wildcard() {
        assert_eq!(keys("leasehold:").held_patterns("")[0].0, "{leasehold:*}:holder");
        assert_eq!(keys("{a*}:").held_patterns("b?{")[1].0, "{a\\*}:{b\\?%7B*}:shared");
    }

    #[test]
    fn stray_brace_in_the_prefix_is_refused() {
        for prefix in ["{", "}", "a{b", "{}", "}a{", "{a}{b}", "{{a}}", "{a}}"] {
            let error = Keys::new(&Namespace::new(prefix).unwrap()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("invalid prefix: {prefix:?} has a brace that is no part of one hash tag")
            );
            assert!(error.help().is_some());
        }
    }
}
