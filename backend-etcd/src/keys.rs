//! The keys of a lock's queue, and the requests on them. Pure: nothing is asked of a server.
//!
//! A contender is a key in the lock's directory that lives on its own lease. The contenders are in the order of their create
//! revisions, which the server counts. A key of another program, such as `etcdctl lock`, is a writer.

use crate::rpc::{
    ASCENDING, BY_CREATE_REVISION, CREATE_REVISION, Compare, DESCENDING, DeleteRequest, EQUAL, KeyValue,
    LEASE, PutRequest, RangeRequest, RequestOp,
};
use leasehold_core::{Claim, FencingToken, LockMode, LockName, Namespace, OwnerId};

/// Stands before the number of a reader's lease, behind all hexadecimal digits: so writers are a range of their own.
const READER: &str = "r";
/// Stands in the place of the owner in the value of a lock that is released and not yet free.
const NO_OWNER: &str = "-";

/// The locks of a namespace below a prefix, which ends with a slash.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) base: String,
    pub(crate) namespace: Namespace,
}

impl Names {
    /// The key of a claim on this lease.
    pub(crate) fn key(&self, claim: &Claim, lease: i64) -> Vec<u8> {
        let mark = if claim.mode().is_shared() { READER } else { "" };
        format!("{}{mark}{lease:x}", self.directory(claim.name())).into()
    }

    /// All contenders for a lock, the oldest first.
    pub(crate) fn contenders(&self, name: &LockName) -> RangeRequest {
        with_prefix(self.directory(name))
    }

    /// The contenders with which a claim conflicts: a reader only with writers.
    pub(crate) fn conflicting(&self, claim: &Claim) -> RangeRequest {
        let mut range = self.contenders(claim.name());
        if claim.mode().is_shared() {
            range.range_end = format!("{}{READER}", self.directory(claim.name())).into();
        }
        range
    }

    /// The keys of all locks whose names begin with `prefix`.
    pub(crate) fn keys_of(&self, prefix: &str) -> RangeRequest {
        with_prefix(format!("{}{}", self.base, self.encoded(prefix)))
    }

    /// The lock in whose queue a key is. `None` for a key that is none of ours.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<LockName> {
        let (segment, _) = std::str::from_utf8(key).ok()?.strip_prefix(&self.base)?.split_once('/')?;
        let name = self.namespace.name(&segment.replace("%2F", "/").replace("%25", "%"))?;
        (self.encoded(name.as_str()) == segment).then_some(name)
    }

    fn directory(&self, name: &LockName) -> String {
        format!("{}{}/", self.base, self.encoded(name.as_str()))
    }

    /// The name without slashes: they would make the queue of `a/b` a part of that of `a`. Other characters stay as they are.
    fn encoded(&self, name: &str) -> String {
        self.namespace.stored(name).replace('%', "%25").replace('/', "%2F")
    }
}

fn with_prefix(prefix: String) -> RangeRequest {
    let key = prefix.into_bytes();
    let mut range_end = key.clone();
    // The last byte of a text is never the largest.
    if let Some(last) = range_end.last_mut() {
        *last += 1;
    }
    let (sort_order, sort_target) = (ASCENDING, BY_CREATE_REVISION);
    RangeRequest { key, range_end, sort_order, sort_target, ..RangeRequest::default() }
}

/// The youngest keys of a range alone, without their values.
pub(crate) fn youngest(range: RangeRequest, limit: i64) -> RangeRequest {
    RangeRequest { limit, sort_order: DESCENDING, keys_only: true, ..range }
}

/// True if the range has no key.
pub(crate) fn is_empty(range: RangeRequest) -> Compare {
    Compare { range_end: range.range_end, ..created_at(&range.key, 0) }
}

/// True if the key was created at this revision, and was not deleted since. Revision zero: there is no such key.
pub(crate) fn created_at(key: &[u8], revision: i64) -> Compare {
    let (target, create_revision) = (CREATE_REVISION, Some(revision));
    Compare { result: EQUAL, target, key: key.to_vec(), create_revision, ..Compare::default() }
}

/// True if the key lives on this lease.
pub(crate) fn lives_on(key: &[u8], lease: i64) -> Compare {
    Compare { result: EQUAL, target: LEASE, key: key.to_vec(), lease: Some(lease), ..Compare::default() }
}

pub(crate) fn read(range: RangeRequest) -> RequestOp {
    RequestOp { range: Some(range), ..RequestOp::default() }
}

/// Reads a key without its value.
pub(crate) fn read_key(key: &[u8]) -> RequestOp {
    read(RangeRequest { key: key.to_vec(), keys_only: true, ..RangeRequest::default() })
}

/// Writes the key of a claim on this lease. Without an owner, the lock is released and not yet free.
pub(crate) fn put(key: &[u8], claim: &Claim, owner: Option<OwnerId>, lease: i64) -> RequestOp {
    let put = PutRequest { key: key.to_vec(), value: value(claim, owner), lease };
    RequestOp { put: Some(put), ..RequestOp::default() }
}

pub(crate) fn delete(key: &[u8]) -> RequestOp {
    RequestOp { delete: Some(DeleteRequest { key: key.to_vec() }), ..RequestOp::default() }
}

/// The value of a contender: a letter for its mode, its owner, and its description.
fn value(claim: &Claim, owner: Option<OwnerId>) -> Vec<u8> {
    let mode = if claim.mode() == LockMode::Write { 'w' } else { 'l' };
    let owner = owner.map_or_else(|| NO_OWNER.to_owned(), OwnerId::to_hex);
    format!("{mode} {owner} {}", claim.holder()).into()
}

/// The owner of a contender, and its description. Another program has no owner.
pub(crate) fn parse_value(value: &[u8]) -> (Option<OwnerId>, String) {
    let text = String::from_utf8_lossy(value);
    let mut parts = text.splitn(3, ' ');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("l" | "w"), Some(owner), Some(holder)) => (OwnerId::from_hex(owner), holder.to_owned()),
        _ => (None, text.into_owned()),
    }
}

/// The mode of a contender.
pub(crate) fn mode_of(key: &KeyValue) -> LockMode {
    let last = key.key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    match (last.starts_with(READER.as_bytes()), key.value.first()) {
        (true, _) => LockMode::Shared,
        (false, Some(b'w')) => LockMode::Write,
        _ => LockMode::Exclusive,
    }
}

/// The token of a grant: the revision of the whole store at which its key was created.
pub(crate) fn token(create_revision: i64) -> FencingToken {
    FencingToken::new(create_revision.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(prefix: &str) -> Names {
        Names { base: "app/".to_owned(), namespace: Namespace::new(prefix).unwrap() }
    }

    fn claim(name: &str, mode: LockMode) -> Claim {
        let (name, owner) = (LockName::new(name).unwrap(), OwnerId::from_u128(7));
        Claim::new(name, owner, std::time::Duration::ZERO, "{} x".into()).with_mode(mode)
    }

    #[test]
    fn name_with_a_slash_has_a_queue_of_its_own() {
        for (name, expected) in
            [("a", "app/a/7"), ("a/b", "app/a%2Fb/7"), ("50%", "app/50%25/7"), ("é", "app/é/7")]
        {
            assert_eq!(names("").key(&claim(name, LockMode::Write), 7), expected.as_bytes());
        }
    }

    #[test]
    fn readers_are_not_in_the_range_of_writers() {
        let (names, reader, writer) = (names(""), claim("a", LockMode::Shared), claim("a", LockMode::Write));
        let (writers, all) = (names.conflicting(&reader), names.conflicting(&writer));
        for lease in [1, 0xffff, i64::MAX, 0x694d_7a5c_1b2c_3d4f] {
            let (writer, reader) = (names.key(&writer, lease), names.key(&reader, lease));
            assert!((&writers.key..&writers.range_end).contains(&&writer));
            assert!(!(&writers.key..&writers.range_end).contains(&&reader));
            assert!((&all.key..&all.range_end).contains(&&reader));
        }
    }

    #[test]
    fn value_of_another_program_has_no_owner() {
        assert_eq!(parse_value(b""), (None, String::new()));
        assert_eq!(parse_value(b"l x y").0, None);
        for owner in [Some(OwnerId::from_u128(7)), None] {
            let value = value(&claim("a", LockMode::Exclusive), owner);
            assert_eq!(parse_value(&value), (owner, "{} x".to_owned()));
        }
    }

    proptest! {
        #[test]
        fn names_are_read_back_and_differ(one in "\\PC{1,60}", other in "\\PC{1,60}") {
            prop_assume!(LockName::new(&one).is_ok() && LockName::new(&other).is_ok());
            let names = names("shop:");
            let key = |name: &str| names.key(&claim(name, LockMode::Shared), 7);
            let found = names.name_of(&key(&one));
            prop_assert_eq!(found.as_ref().map(LockName::as_str), Some(one.as_str()));
            prop_assert_eq!(one == other, key(&one) == key(&other));
        }
    }
}
