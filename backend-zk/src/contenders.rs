//! Who stands in line for a lock: what the names of its children say. Pure, so that every order of them can be tried.

use crate::node::is_spent;
use leasehold_core::OwnerId;
use std::cmp::Ordering;
use std::collections::HashMap;

/// What stands before the sequence number in the name of a contender: Curator's, go-zk's and ours; and kazoo's.
///
/// A kazoo lock in the directory draws its numbers from the same counter, so it can be queued behind as well as any
/// other. Whether it queues behind us is its own matter: see the crate's documentation.
const MARKS: [&str; 2] = ["lock-", "__lock__"];
/// What Curator calls protection: an id in front by which the maker finds its node after a lost reply.
const PROTECTED: &str = "_c_";
/// The shortest sequence number: ten places, with leading zeros.
const DIGITS: usize = 10;

/// Those who stand in line, first come first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Queue(Vec<Contender>);

/// A child that holds the lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    /// The name of its node. With it a contender is as large as a string, and the line lies where its names were read to.
    pub(crate) node: Box<str>,
    sequence: Sequence,
}

/// The number that the server gave to a node: how many children were ever created there, in 32 bits. It sticks at
/// 2 147 483 647, but for those that are made while such a one is under way, which have numbers from -2 147 483 648 on, and
/// all of them more than once: see [`Node::spent`](crate::node::Node::spent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sequence(i64);

/// The name of an owner's node, up to the number that the server adds.
pub(crate) fn prefix_of(owner: OwnerId) -> String {
    let id = owner.to_hex();
    let [a, b, c, d, e] = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
    [PROTECTED, a, "-", b, "-", c, "-", d, "-", e, "-", MARKS[0]].concat()
}

impl Queue {
    /// The contenders among a lock's children. Everything else there is somebody else's business.
    pub(crate) fn of(children: Vec<String>) -> Self {
        let mut contenders: Vec<Contender> = children.into_iter().filter_map(Contender::of).collect();
        if let Some(any) = contenders.first().map(|contender| contender.sequence) {
            contenders.sort_unstable_by(|one, other| one.order(other, any));
        }
        Self(contenders)
    }

    /// The nodes that share their number with another. The server gives each number once, so all of them but one were named by
    /// hand; but for those that are [spent](is_spent), by which nobody holds, and of which there may be any number.
    pub(crate) fn tied(&self) -> Vec<String> {
        let groups = self.0.chunk_by(|one, other| one.sequence == other.sequence);
        let tied = groups.filter(|group| group.len() > 1 && !group.iter().any(Contender::is_spent));
        tied.flatten().map(|contender| contender.node.to_string()).collect()
    }

    /// Puts those of one number in the order of the transactions that made them: nobody can come to stand in front of a
    /// node by a name that is smaller. Who is tied and has no transaction has left.
    pub(crate) fn untie(&mut self, made: &HashMap<String, i64>) {
        let tied = self.tied();
        let has_left = |node: &str| !made.contains_key(node) && tied.iter().any(|tied| tied == node);
        self.0.retain(|contender| !has_left(&contender.node));
        for group in self.0.chunk_by_mut(|one, other| one.sequence == other.sequence) {
            // What one transaction has made stays in the order of the names.
            group.sort_by_key(|contender| made.get(&*contender.node).copied());
        }
    }

    /// All of them, in their order.
    pub(crate) fn into_contenders(self) -> Vec<Contender> {
        self.0
    }

    /// The holder.
    pub(crate) fn first(&self) -> Option<&Contender> {
        self.0.first()
    }

    /// The places of an owner, counted from the holder's, which is 0. More than one only if a request of an earlier
    /// session was applied after that session had been given up.
    pub(crate) fn places_of(&self, owner: OwnerId) -> Vec<usize> {
        let name = prefix_of(owner);
        let name = name.strip_suffix(MARKS[0]).unwrap_or(&name);
        // The owners of all the others need not be read from their names.
        let mine = |(_, contender): &(usize, &Contender)| {
            contender.begins_with(name) && contender.owner() == Some(owner)
        };
        self.0.iter().enumerate().filter(mine).map(|(place, _)| place).collect()
    }

    /// The place of a node, past the end if it has none.
    pub(crate) fn place_of(&self, node: &str) -> usize {
        self.0.iter().position(|contender| *contender.node == *node).unwrap_or(self.0.len())
    }

    /// The node at a place.
    pub(crate) fn node(&self, place: usize) -> &str {
        self.0.get(place).map_or("", |contender| &contender.node)
    }
}

impl Contender {
    fn of(node: String) -> Option<Self> {
        let sequence = Sequence::parse(split(&node)?.1)?;
        Some(Self { sequence, node: node.into() })
    }

    /// Whose it is, if its name says so.
    pub(crate) fn owner(&self) -> Option<OwnerId> {
        owner_of(split(&self.node)?.0)
    }

    /// By name, where the numbers are equal: the order in which a server lists them is another at every server.
    fn order(&self, other: &Self, base: Sequence) -> Ordering {
        let numbers = self.sequence.since(base).cmp(&other.sequence.since(base));
        numbers.then_with(|| self.node.cmp(&other.node))
    }

    fn is_spent(&self) -> bool {
        i32::try_from(self.sequence.0).is_ok_and(is_spent)
    }

    /// Whatever the case of its letters: an owner may be written in either.
    fn begins_with(&self, name: &str) -> bool {
        self.node.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
    }
}

/// Whose node has this name, and its number, where both can be read from it and the number has 32 bits.
pub(crate) fn owner_and_number(node: &str) -> Option<(OwnerId, i32)> {
    let (before, number) = split(node)?;
    Some((owner_of(before)?, number.parse().ok()?))
}

/// Whose a node is, by what stands before the mark.
fn owner_of(before: &str) -> Option<OwnerId> {
    owner(before.strip_prefix(PROTECTED)?.strip_suffix('-')?)
}

/// What stands before the mark in a name, and after it.
fn split(node: &str) -> Option<(&str, &str)> {
    MARKS.iter().find_map(|mark| node.rsplit_once(mark))
}

impl Sequence {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (numeric && text.len() >= DIGITS).then(|| text.parse().ok().map(Self)).flatten()
    }

    /// How far it is from `base`, which is one of those that stand in line with it: the order in which they came.
    ///
    /// Those who stand in line at one time are far less than 2³¹ numbers apart. So a number below zero comes after the
    /// largest ones, and not before a holder among them.
    fn since(self, base: Self) -> i64 {
        match (i32::try_from(self.0), i32::try_from(base.0)) {
            (Ok(this), Ok(base)) => this.wrapping_sub(base).into(),
            // Of a server that counts further.
            _ => self.0.wrapping_sub(base.0),
        }
    }
}

/// An owner in the five groups of a UUID.
fn owner(id: &str) -> Option<OwnerId> {
    if !id.split('-').map(str::len).eq([8, 4, 4, 4, 12]) {
        return None;
    }
    let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = |group: &str| u128::from_str_radix(group, 16).ok().filter(|_| digits(group));
    let id = id.split('-').try_fold(0, |id, group| Some(id << (4 * group.len()) | number(group)?));
    id.map(OwnerId::from_u128)
}

#[cfg(test)]
mod tests;
