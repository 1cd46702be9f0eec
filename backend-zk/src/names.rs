//! The paths of locks: a name is one segment below the directory of the locks.

use leasehold_core::{LockName, Namespace};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::borrow::Cow;

/// The characters that are percent-encoded in a segment, beside all that are not ASCII: ZooKeeper refuses control characters,
/// characters outside the basic plane and those above U+F000. A `/` would end the segment.
const ENCODED: &AsciiSet = &CONTROLS.add(b'/').add(b'%');
/// Segments with another meaning: the relative ones, and the directory of the server itself.
const RESERVED: [&str; 3] = [".", "..", "zookeeper"];

#[derive(Debug)]
pub(crate) struct Names {
    /// An absolute path without a slash at its end.
    pub(crate) base: String,
    namespace: Namespace,
}

impl Names {
    pub(crate) fn new(base: String, namespace: Namespace) -> Self {
        Self { base, namespace }
    }

    /// The directory of one lock, whose children hold it or wait for it.
    pub(crate) fn directory_of(&self, name: &LockName) -> String {
        [&*self.base, "/", &encoded(&self.namespace.stored(name.as_str()))].concat()
    }

    /// The lock whose directory this child of the base is, if it is one of ours.
    pub(crate) fn name(&self, segment: &str) -> Option<LockName> {
        let stored = percent_decode_str(segment).decode_utf8().ok()?;
        let ours = encoded(&stored) == segment;
        ours.then(|| self.namespace.name(&stored)).flatten()
    }
}

fn encoded(stored: &str) -> Cow<'_, str> {
    if let Some(first) = RESERVED.contains(&stored).then(|| stored.as_bytes()[0]) {
        return format!("%{first:02X}{}", &stored[1..]).into();
    }
    utf8_percent_encode(stored, ENCODED).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> Names {
        Names::new("/app".to_owned(), Namespace::default())
    }

    fn path(name: &str) -> String {
        names().directory_of(&LockName::new(name).unwrap())
    }

    #[test]
    fn ordinary_name_is_its_own_segment() {
        for name in ["job", "a b", "A", "a.b", "...", "_c_", "zookeeper2", "{x}", "~"] {
            assert_eq!(path(name), format!("/app/{name}"));
        }
    }

    #[test]
    fn name_with_a_special_meaning_is_encoded() {
        for (name, segment) in [
            (".", "%2E"),
            ("..", "%2E."),
            ("../x", "..%2Fx"),
            ("/abs", "%2Fabs"),
            ("zookeeper", "%7Aookeeper"),
            ("50%", "50%25"),
            ("é", "%C3%A9"),
            ("🔒", "%F0%9F%94%92"),
            ("\u{fff0}", "%EF%BF%B0"),
        ] {
            assert_eq!(path(name), format!("/app/{segment}"));
            assert_eq!(names().name(segment).unwrap().as_str(), name);
        }
    }

    #[test]
    fn segment_in_another_encoding_is_not_ours() {
        for segment in ["%2e", "%41", "%", "%zz", "%-0123abcd", "a%2", "é", ".", "zookeeper", "%FF"] {
            assert_eq!(names().name(segment), None, "{segment}");
        }
    }

    #[test]
    fn prefix_is_a_part_of_the_segment() {
        let names = Names::new("/app".to_owned(), Namespace::new("shop/").unwrap());
        assert_eq!(names.directory_of(&LockName::new("x").unwrap()), "/app/shop%2Fx");
        assert_eq!(names.name("shop%2Fx").unwrap().as_str(), "x");
        assert_eq!(names.name("x"), None);
    }

    proptest! {
        #[test]
        fn names_are_read_back_and_differ(one in "\\PC{1,60}", other in "\\PC{1,60}") {
            let segment = |name: &str| encoded(name).into_owned();
            prop_assume!(LockName::new(&one).is_ok() && LockName::new(&other).is_ok());
            let name = names().name(&segment(&one));
            prop_assert_eq!(name.as_ref().map(LockName::as_str), Some(one.as_str()));
            prop_assert_eq!(one == other, segment(&one) == segment(&other));
            prop_assert!(segment(&one).bytes().all(|byte| (b' '..0x7f).contains(&byte) && byte != b'/'));
            prop_assert!(!RESERVED.contains(&segment(&one).as_str()));
        }
    }
}
