//! The queue of a lock, read from the names of its children. Pure: nothing is asked of a server.

use leasehold_core::{Error, ErrorKind, LockMode, OwnerId, Result};
use std::cmp::Ordering;

/// The texts that stand before the number in the name of a contender, and the mode that they mean.
///
/// The directory counts one sequence for all of them. Whether another program queues behind our nodes is its own rule: see
/// `docs/zookeeper.md`.
const MARKS: [(&str, LockMode); 5] = [
    // Curator's `InterProcessMutex`, and go-zk.
    ("lock-", LockMode::Exclusive),
    // Curator's `InterProcessReadWriteLock`.
    ("__WRIT__", LockMode::Write),
    ("__READ__", LockMode::Shared),
    // kazoo's `Lock` and `WriteLock`, and its `ReadLock`.
    ("__lock__", LockMode::Exclusive),
    ("__rlock__", LockMode::Shared),
];
/// The beginning of a protected name, as Curator calls it: an id follows, by which the creator finds its node again.
const PROTECTED: &str = "_c_";
/// The least number of characters in a sequence number, which has leading zeros.
const MIN_DIGITS: usize = 10;
/// The numbers at either end of the range that are not used: a claim that is given one fails. A directory repeats its last
/// number, so two nodes could have it.
const UNUSED_NUMBERS: i32 = 1 << 20;

/// The contenders of a lock, in the order in which they were created.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Queue(Vec<Contender>);

/// A child that holds the lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) node: String,
    pub(crate) mode: LockMode,
    sequence: Sequence,
}

/// The number that the server gave to a node: the count of the children that were ever created in the directory, in 32 bits.
/// It stays at 2 147 483 647, and creations that race there get numbers from -2 147 483 648 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sequence(i64);

/// The name of an owner's node, up to the number that the server adds; [`Unsupported`](ErrorKind::Unsupported) for a mode that
/// this version does not know.
pub(crate) fn prefix_of(owner: OwnerId, mode: LockMode) -> Result<String> {
    let mark = MARKS.iter().find(|(_, meant)| *meant == mode);
    let unknown =
        || Error::new(ErrorKind::Unsupported, format!("a {mode} lock is not known to this version"));
    Ok([&owner_part(owner), mark.ok_or_else(unknown)?.0].concat())
}

impl Queue {
    /// The contenders among the children of a lock. Other children are ignored.
    pub(crate) fn of(children: Vec<String>) -> Self {
        let mut contenders: Vec<Contender> = children.into_iter().filter_map(Contender::of).collect();
        if let Some(base) = contenders.first().map(|contender| contender.sequence) {
            contenders.sort_unstable_by(|one, other| one.cmp_from(other, base));
        }
        Self(contenders)
    }

    /// The contender on which the one at `index` depends: the nearest in front with which it conflicts. `None` if it holds.
    ///
    /// A writer depends on the node directly in front. A reader depends on the nearest writer in front, so readers that
    /// follow each other hold together, and none passes a writer.
    pub(crate) fn blocker(&self, index: usize) -> Option<&Contender> {
        let mode = self.0.get(index)?.mode;
        self.0[..index].iter().rev().find(|other| mode.conflicts_with(other.mode))
    }

    pub(crate) fn contenders(&self) -> &[Contender] {
        &self.0
    }

    /// The indices of an owner's nodes. There are several only if a create of an earlier session was carried out late.
    pub(crate) fn indices_of(&self, owner: OwnerId) -> Vec<usize> {
        let begin = owner_part(owner);
        let is_owners = |contender: &Contender| {
            // The comparison is cheaper than reading an owner, and the letters may have either case.
            let same_begin =
                contender.node.get(..begin.len()).is_some_and(|it| it.eq_ignore_ascii_case(&begin));
            same_begin && contender.owner() == Some(owner)
        };
        (0..self.0.len()).filter(|index| is_owners(&self.0[*index])).collect()
    }
}

impl Contender {
    fn of(node: String) -> Option<Self> {
        let (mode, _, sequence) = parts(&node)?;
        Some(Self { node, mode, sequence })
    }

    pub(crate) fn owner(&self) -> Option<OwnerId> {
        let (_, before, _) = parts(&self.node)?;
        owner_from_uuid(before.strip_prefix(PROTECTED)?.strip_suffix('-')?)
    }

    /// The number, if another node of the directory may be given it too.
    pub(crate) fn repeatable_number(&self) -> Option<i32> {
        let unique = i32::MIN + UNUSED_NUMBERS..=i32::MAX - UNUSED_NUMBERS;
        i32::try_from(self.sequence.0).ok().filter(|number| !unique.contains(number))
    }

    /// Equal numbers are ordered by name, so that every client sees one order: a server lists children in any order.
    fn cmp_from(&self, other: &Self, base: Sequence) -> Ordering {
        let by_number = self.sequence.distance_from(base).cmp(&other.sequence.distance_from(base));
        by_number.then_with(|| self.node.cmp(&other.node))
    }
}

impl Sequence {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && text.len() >= MIN_DIGITS).then(|| text.parse().ok().map(Self)).flatten()
    }

    /// The distance from `base`, a number of the same queue. The numbers of one queue are far less than 2³¹ apart, so a
    /// negative number follows the largest ones.
    fn distance_from(self, base: Self) -> i64 {
        match (i32::try_from(self.0), i32::try_from(base.0)) {
            (Ok(this), Ok(base)) => this.wrapping_sub(base).into(),
            // A server that counts beyond 32 bits.
            _ => self.0.wrapping_sub(base.0),
        }
    }
}

/// The mode of a node, the text before its mark, and its number. `None` if it is no contender.
fn parts(node: &str) -> Option<(LockMode, &str, Sequence)> {
    MARKS.iter().find_map(|(mark, mode)| {
        let (before, number) = node.rsplit_once(mark)?;
        Some((*mode, before, Sequence::parse(number)?))
    })
}

/// The part of a node's name that names its owner, up to the mark.
fn owner_part(owner: OwnerId) -> String {
    let id = owner.to_hex();
    let [a, b, c, d, e] = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
    [PROTECTED, a, "-", b, "-", c, "-", d, "-", e, "-"].concat()
}

/// Reads an owner that is written in the five groups of a UUID.
fn owner_from_uuid(id: &str) -> Option<OwnerId> {
    let has_groups = id.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    OwnerId::from_hex(&id.replace('-', "")).filter(|_| has_groups)
}

#[cfg(test)]
mod tests;
