//! The keys of a lock's queue, and the requests on them. Pure: nothing is asked of a server.
//!
//! A contender is a key in the lock's directory that lives on its own lease. The contenders are in the order of their create
//! revisions, which the server counts. A key of another program, such as `etcdctl lock`, is a writer.

use crate::rpc::{
    ASCENDING, BY_CREATE_REVISION, CREATE_REVISION, Compare, DESCENDING, DeleteRequest, EQUAL, KeyValue,
    LEASE, Operand, PutRequest, RangeRequest, Request, RequestOp,
};
use leasehold_core::{Claim, FencingToken, LockMode, LockName, Namespace, OwnerId};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The characters of a name that are percent-encoded. A `/` would make the queue of `a/b` a part of that of `a`.
const ENCODED: &AsciiSet = &CONTROLS.add(b'/').add(b'%');
/// Stands before the number of a reader's lease, behind all hexadecimal digits: so writers are a range of their own.
const READER: u8 = b'r';
/// Stands in the place of the owner in the value of a lock that is released and not yet free.
const NO_OWNER: &str = "-";

/// The prefix of all locks.
#[derive(Debug)]
pub(crate) struct Names {
    base: String,
    namespace: Namespace,
}

/// The queue of one lock.
#[derive(Debug)]
pub(crate) struct Directory(Vec<u8>);

impl Names {
    /// The locks of this namespace below `base`, which ends with a slash.
    pub(crate) fn new(base: String, namespace: Namespace) -> Self {
        Self { base, namespace }
    }

    pub(crate) fn directory_of(&self, name: &LockName) -> Directory {
        Directory(format!("{}{}/", self.base, self.encoded(name.as_str())).into())
    }

    /// The keys of all locks whose names begin with `prefix`.
    pub(crate) fn keys_of(&self, prefix: &str) -> RangeRequest {
        with_prefix(format!("{}{}", self.base, self.encoded(prefix)).into())
    }

    /// The lock in whose queue a key is. `None` for a key that is none of ours.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<LockName> {
        let (segment, _) = std::str::from_utf8(key).ok()?.strip_prefix(&self.base)?.split_once('/')?;
        let name = self.namespace.name(&percent_decode_str(segment).decode_utf8().ok()?)?;
        (self.encoded(name.as_str()) == segment).then_some(name)
    }

    fn encoded(&self, name: &str) -> String {
        let mut encoded = String::new();
        // Other characters stay as they are: etcd takes any bytes.
        for character in self.namespace.stored(name).chars() {
            match character.is_ascii() {
                true => encoded.extend(utf8_percent_encode(character.encode_utf8(&mut [0; 4]), ENCODED)),
                false => encoded.push(character),
            }
        }
        encoded
    }
}

impl Directory {
    /// The key of a contender on this lease.
    pub(crate) fn key(&self, mode: LockMode, lease: i64) -> Vec<u8> {
        let mark: &[u8] = if mode.is_shared() { &[READER] } else { &[] };
        [&*self.0, mark, format!("{lease:x}").as_bytes()].concat()
    }

    /// All contenders, the oldest first.
    pub(crate) fn all(&self) -> RangeRequest {
        with_prefix(self.0.clone())
    }

    /// The contenders with which a hold of this mode conflicts: a reader only with writers.
    pub(crate) fn conflicting(&self, mode: LockMode) -> RangeRequest {
        let all = self.all();
        match mode.is_shared() {
            true => RangeRequest { range_end: [&*self.0, &[READER]].concat(), ..all },
            false => all,
        }
    }
}

fn with_prefix(key: Vec<u8>) -> RangeRequest {
    let mut range_end = key.clone();
    // A prefix of keys is text, so its last byte is never the largest.
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
    let operand = Some(Operand::CreateRevision(revision));
    Compare { result: EQUAL, target: CREATE_REVISION, key: key.to_vec(), operand, range_end: Vec::new() }
}

/// True if the key lives on this lease.
pub(crate) fn lives_on(key: &[u8], lease: i64) -> Compare {
    Compare { target: LEASE, operand: Some(Operand::Lease(lease)), ..created_at(key, 0) }
}

pub(crate) fn read(range: RangeRequest) -> RequestOp {
    RequestOp { request: Some(Request::Range(range)) }
}

/// Reads a key without its value.
pub(crate) fn read_key(key: &[u8]) -> RequestOp {
    read(RangeRequest { key: key.to_vec(), keys_only: true, ..RangeRequest::default() })
}

pub(crate) fn put(key: &[u8], value: &[u8], lease: i64) -> RequestOp {
    RequestOp { request: Some(Request::Put(PutRequest { key: key.to_vec(), value: value.to_vec(), lease })) }
}

pub(crate) fn delete(key: &[u8]) -> RequestOp {
    RequestOp { request: Some(Request::Delete(DeleteRequest { key: key.to_vec() })) }
}

/// The value of a contender: a letter for its mode, its owner, and its description.
pub(crate) fn value_of(claim: &Claim) -> Vec<u8> {
    let mode = if claim.mode() == LockMode::Write { 'w' } else { 'l' };
    format!("{mode} {} {}", claim.owner().to_hex(), claim.holder()).into_bytes()
}

/// The value of a lock that is released and not yet free.
pub(crate) fn value_without_owner(claim: &Claim) -> Vec<u8> {
    format!("l {NO_OWNER} {}", claim.holder()).into_bytes()
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
    match (last.first() == Some(&READER), key.value.first()) {
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
        Names::new("app/".to_owned(), Namespace::new(prefix).unwrap())
    }

    fn directory(name: &str) -> Directory {
        names("").directory_of(&LockName::new(name).unwrap())
    }

    #[test]
    fn name_with_a_slash_has_a_queue_of_its_own() {
        assert_eq!(directory("a").0, b"app/a/");
        assert_eq!(directory("a/b").0, b"app/a%2Fb/");
        assert_eq!(directory("50%").0, b"app/50%25/");
        assert_eq!(directory("é").0, "app/é/".as_bytes());
    }

    #[test]
    fn readers_are_not_in_the_range_of_writers() {
        let directory = directory("a");
        let writers = directory.conflicting(LockMode::Shared);
        for lease in [1, 0xffff, i64::MAX, 0x694d_7a5c_1b2c_3d4f] {
            let (writer, reader) =
                (directory.key(LockMode::Write, lease), directory.key(LockMode::Shared, lease));
            assert!((&writers.key..&writers.range_end).contains(&&writer));
            assert!(!(&writers.key..&writers.range_end).contains(&&reader));
            let all = directory.conflicting(LockMode::Exclusive);
            assert!((&all.key..&all.range_end).contains(&&reader));
        }
    }

    #[test]
    fn value_of_another_program_has_no_owner() {
        assert_eq!(parse_value(b""), (None, String::new()));
        assert_eq!(parse_value(b"l x y").0, None);
        let name = LockName::new("a").unwrap();
        let claim = Claim::new(name, OwnerId::from_u128(7), std::time::Duration::ZERO, "{} x".into());
        assert_eq!(parse_value(&value_of(&claim)), (Some(OwnerId::from_u128(7)), "{} x".to_owned()));
        assert_eq!(parse_value(&value_without_owner(&claim)), (None, "{} x".to_owned()));
    }

    proptest! {
        #[test]
        fn names_are_read_back_and_differ(one in "\\PC{1,60}", other in "\\PC{1,60}") {
            prop_assume!(LockName::new(&one).is_ok() && LockName::new(&other).is_ok());
            let names = names("shop:");
            let key = |name: &str| names.directory_of(&LockName::new(name).unwrap()).key(LockMode::Shared, 7);
            let found = names.name_of(&key(&one));
            prop_assert_eq!(found.as_ref().map(LockName::as_str), Some(one.as_str()));
            prop_assert_eq!(one == other, key(&one) == key(&other));
        }
    }
}
