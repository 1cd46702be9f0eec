//! The keys of a lock's queue, and the requests on them. Pure: nothing is asked of a server.
//!
//! A contender is a key below the lock's directory that lives on its own lease. The keys are in the order in which they were
//! created, which the server counts. A key of another program, such as `etcdctl lock`, is a writer.

use crate::wire::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyValue, Operand, Operation, PutRequest,
    RangeRequest, RequestOp, SortOrder, SortTarget,
};
use leasehold_core::{Claim, LockMode, LockName, Namespace, OwnerId};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The characters of a name that are percent-encoded. A `/` would make the queue of `a/b` a part of that of `a`.
const ENCODED: &AsciiSet = &CONTROLS.add(b'/').add(b'%');
/// Stands before the number of a reader's lease: behind all numbers in hexadecimal, so that writers are a range of their own.
const READER: u8 = b'r';
/// Stands in the place of the owner in the value of a lock that is released and not yet free.
const NO_OWNER: &str = "-";

/// The prefix of all locks.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) base: String,
    namespace: Namespace,
}

/// The queue of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory(Vec<u8>);

/// A half-open range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    first: Vec<u8>,
    end: Vec<u8>,
}

impl Names {
    /// The locks of this namespace below `base`, which ends with a slash.
    pub(crate) fn new(base: String, namespace: Namespace) -> Self {
        Self { base, namespace }
    }

    pub(crate) fn directory_of(&self, name: &LockName) -> Directory {
        Directory(format!("{}{}/", self.base, encoded(&self.namespace.stored(name.as_str()))).into())
    }

    /// All locks of this namespace whose names begin with `prefix`.
    pub(crate) fn keys_of(&self, prefix: &str) -> Keys {
        Keys::with_prefix(format!("{}{}", self.base, encoded(&self.namespace.stored(prefix))).into())
    }

    /// The lock in whose queue a key is.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<LockName> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.base)?;
        let (segment, _) = rest.split_once('/')?;
        let stored = percent_decode_str(segment).decode_utf8().ok()?;
        let ours = encoded(&stored) == segment;
        ours.then(|| self.namespace.name(&stored)).flatten()
    }
}

fn encoded(stored: &str) -> String {
    // Only what must be: etcd takes any bytes.
    let mut encoded = String::with_capacity(stored.len());
    for character in stored.chars() {
        match character.is_ascii() {
            true => encoded.extend(utf8_percent_encode(character.encode_utf8(&mut [0; 4]), ENCODED)),
            false => encoded.push(character),
        }
    }
    encoded
}

impl Directory {
    /// The key of a contender on this lease.
    pub(crate) fn key(&self, mode: LockMode, lease: i64) -> Vec<u8> {
        let mut key = self.0.clone();
        key.extend(mode.is_shared().then_some(READER));
        key.extend(format!("{lease:x}").into_bytes());
        key
    }

    /// All contenders.
    pub(crate) fn all(&self) -> Keys {
        Keys::with_prefix(self.0.clone())
    }

    /// The contenders with which a hold of this mode conflicts: a reader only with writers.
    pub(crate) fn conflicting(&self, mode: LockMode) -> Keys {
        let all = self.all();
        match mode.is_shared() {
            true => Keys { end: [&*self.0, &[READER]].concat(), ..all },
            false => all,
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
}

impl Keys {
    fn with_prefix(first: Vec<u8>) -> Self {
        let mut end = first.clone();
        // A prefix of keys is text, so its last byte is never the largest.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self { first, end }
    }

    /// Their oldest.
    pub(crate) fn oldest(self) -> RangeRequest {
        RangeRequest { limit: 1, sort_order: SortOrder::Ascend.into(), ..self.by_age() }
    }

    /// The youngest that is older than this.
    pub(crate) fn in_front_of(self, revision: i64) -> RangeRequest {
        RangeRequest {
            limit: 1,
            sort_order: SortOrder::Descend.into(),
            max_create_revision: revision - 1,
            ..self.by_age()
        }
    }

    /// At most `limit` of them from a key on, in the order of the keys, as they were at this revision.
    pub(crate) fn page(&self, after: Option<Vec<u8>>, limit: i64, revision: i64) -> RangeRequest {
        let first = after.map_or_else(|| self.first.clone(), |key| [&*key, &[0]].concat());
        RangeRequest { key: first, range_end: self.end.clone(), limit, revision, ..RangeRequest::default() }
    }

    /// True if none is older than this.
    pub(crate) fn none_before(self, revision: i64) -> Compare {
        Compare {
            result: CompareResult::Greater.into(),
            target: CompareTarget::Create.into(),
            key: self.first,
            operand: Some(Operand::CreateRevision(revision - 1)),
            range_end: self.end,
        }
    }

    /// True if there is none.
    pub(crate) fn none(self) -> Compare {
        let compare = self.none_before(1);
        Compare { result: CompareResult::Equal.into(), ..compare }
    }

    fn by_age(self) -> RangeRequest {
        RangeRequest {
            key: self.first,
            range_end: self.end,
            sort_target: SortTarget::Create.into(),
            ..RangeRequest::default()
        }
    }
}

/// True if the key was created at this revision, and was not deleted since; zero: if there is no such key.
pub(crate) fn created_at(key: &[u8], revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.to_vec(),
        operand: Some(Operand::CreateRevision(revision)),
        range_end: Vec::new(),
    }
}

/// True if the key has this value.
pub(crate) fn has_value(key: &[u8], value: &[u8]) -> Compare {
    Compare {
        target: CompareTarget::Value.into(),
        operand: Some(Operand::Value(value.to_vec())),
        ..created_at(key, 0)
    }
}

pub(crate) fn read(range: RangeRequest) -> RequestOp {
    RequestOp { operation: Some(Operation::Range(range)) }
}

/// The key alone, without its value.
pub(crate) fn read_key(key: &[u8]) -> RequestOp {
    read(RangeRequest { key: key.to_vec(), keys_only: true, ..RangeRequest::default() })
}

pub(crate) fn put(key: &[u8], value: &[u8], lease: i64) -> RequestOp {
    let put = PutRequest { key: key.to_vec(), value: value.to_vec(), lease };
    RequestOp { operation: Some(Operation::Put(put)) }
}

pub(crate) fn delete(key: &[u8]) -> RequestOp {
    RequestOp { operation: Some(Operation::Delete(DeleteRangeRequest { key: key.to_vec() })) }
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

/// The owner of a contender, and its description. Another program has neither.
pub(crate) fn parse_value(value: &[u8]) -> (Option<OwnerId>, String) {
    let text = String::from_utf8_lossy(value);
    let mut parts = text.splitn(3, ' ');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("l" | "w"), Some(owner), Some(holder)) => (OwnerId::from_hex(owner), holder.to_owned()),
        _ => (None, text.into_owned()),
    }
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
            assert!((&writers.first..&writers.end).contains(&&writer));
            assert!(!(&writers.first..&writers.end).contains(&&reader));
            let all = directory.conflicting(LockMode::Exclusive);
            assert!((&all.first..&all.end).contains(&&reader));
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
