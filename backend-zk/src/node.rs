//! The name of a node, in a third of the room.

use crate::contenders::{owner_and_number, prefix_of};
use leasehold_core::OwnerId;
use std::fmt;

/// How many of a directory's numbers are not used, at either end. So many nodes may be made, by clients that do not look,
/// until two nodes have one number.
const UNUSED: i32 = 1 << 20;

/// The name of a contender's node. Whoever holds keeps one for all of its time, and whoever waits keeps
/// [two](Neighbours).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// As we and Curator name it.
    Numbered { owner: OwnerId, number: i32 },
    /// Another client's, or with a number of another kind.
    Named(Box<str>),
}

/// A claim's node and the one in front of it, in little more room than one of them: the claim knows its owner.
#[derive(Clone, Debug)]
pub(crate) enum Neighbours {
    /// As we and Curator name them, the claim's own by its owner.
    Numbered { own: i32, before: i32, owner_before: OwnerId },
    /// The claim's own, and the one in front of it.
    Named(Box<(Node, Node)>),
}

impl Neighbours {
    /// Of a claim of this owner.
    pub(crate) fn new(owner: OwnerId, own: Node, before: Node) -> Self {
        match (own.numbered(), before.numbered()) {
            (Some((named, own)), Some((owner_before, before))) if named == owner => {
                Self::Numbered { own, before, owner_before }
            }
            _ => Self::Named(Box::new((own, before))),
        }
    }

    /// The claim's node, for which it says its owner.
    pub(crate) fn own(&self, owner: OwnerId) -> Node {
        match self {
            Self::Numbered { own, .. } => Node::Numbered { owner, number: *own },
            Self::Named(both) => both.0.clone(),
        }
    }

    /// The node in front of it.
    pub(crate) fn before(&self) -> Node {
        match self {
            Self::Numbered { before, owner_before, .. } => {
                Node::Numbered { owner: *owner_before, number: *before }
            }
            Self::Named(both) => both.1.clone(),
        }
    }

    /// The number of the claim's node, if it is named as ours are.
    pub(crate) fn number(&self) -> Option<i32> {
        match self {
            Self::Numbered { own, .. } => Some(*own),
            Self::Named(both) => both.0.number(),
        }
    }
}

impl Node {
    /// The owner of a node that is named as ours are, and its number.
    pub(crate) fn numbered(&self) -> Option<(OwnerId, i32)> {
        match self {
            Self::Numbered { owner, number } => Some((*owner, *number)),
            Self::Named(_) => None,
        }
    }

    /// True if it names this owner.
    pub(crate) fn is_of(&self, owner: OwnerId) -> bool {
        self.numbered().is_some_and(|(named, _)| named == owner)
    }

    /// True if the node of this name has the next number.
    pub(crate) fn is_followed_by(&self, node: &str) -> bool {
        let next = self.number().and_then(|number| number.checked_add(1));
        next.is_some() && Self::from(node).number() == next
    }

    /// The number of such a node.
    pub(crate) fn number(&self) -> Option<i32> {
        self.numbered().map(|(_, number)| number)
    }

    /// The number, if nobody may hold by it: others have it too, or will soon.
    pub(crate) fn spent(&self) -> Option<i32> {
        self.number().filter(|number| is_spent(*number))
    }
}

/// True of a number that several nodes of one directory may be given.
pub(crate) fn is_spent(number: i32) -> bool {
    let used = i32::MIN + UNUSED..=i32::MAX - UNUSED;
    !used.contains(&number)
}

impl From<&str> for Node {
    fn from(name: &str) -> Self {
        let numbered = owner_and_number(name).map(|(owner, number)| Self::Numbered { owner, number });
        // Not in other letters: it is asked for by this name.
        numbered.filter(|node| node.to_string() == name).unwrap_or_else(|| Self::Named(name.into()))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbered { owner, number } => write!(f, "{}{number:010}", prefix_of(*owner)),
            Self::Named(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn our_names_need_no_allocation() {
        for name in [
            "_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001",
            "_c_01234567-89ab-cdef-0123-456789abcdef-lock-2147483647",
            "_c_01234567-89ab-cdef-0123-456789abcdef-lock--000000001",
            "_c_01234567-89ab-cdef-0123-456789abcdef-lock--2147483648",
        ] {
            let node = Node::from(name);
            assert!(matches!(node, Node::Numbered { .. }), "{name}");
            assert_eq!(node.to_string(), name);
        }
    }

    #[test]
    fn every_other_name_stays_as_it_is_written() {
        for name in [
            "",
            "lock-0000000002",
            "0b1cc1a1f2f94ee9a3e6e8a1b1c1d1e1__lock__0000000003",
            "_c_01234567-89AB-cdef-0123-456789abcdef-lock-0000000001",
            "_c_01234567-89ab-cdef-0123-456789abcdef-lock-00000000001",
            "_c_01234567-89ab-cdef-0123-456789abcdef-lock-2147483648",
            "_c_01234567-89ab-cdef-0123-456789abcdef-__lock__0000000001",
        ] {
            assert_eq!(Node::from(name), Node::Named(name.into()));
        }
    }

    #[test]
    fn numbers_that_two_nodes_may_have_are_spent() {
        let node = |number| Node::Numbered { owner: OwnerId::from_u128(7), number };
        for used in [0, 1, -1, i32::MAX - UNUSED, i32::MIN + UNUSED] {
            assert_eq!(node(used).spent(), None, "{used}");
        }
        for number in [i32::MAX - UNUSED + 1, i32::MAX, i32::MIN, i32::MIN + UNUSED - 1] {
            assert_eq!(node(number).spent(), Some(number));
        }
    }

    #[test]
    fn neighbours_are_who_they_were_however_they_are_named() {
        let (owner, other) = (OwnerId::from_u128(7), OwnerId::from_u128(8));
        let named = |name: &str| Node::Named(name.into());
        let numbered = |owner, number| Node::Numbered { owner, number };
        for (own, before) in [
            (numbered(owner, 2), numbered(other, 1)),
            (numbered(owner, 2), named("lock-0000000001")),
            (named("lock-0000000002"), numbered(other, 1)),
            (numbered(other, 2), numbered(owner, 1)),
        ] {
            let neighbours = Neighbours::new(owner, own.clone(), before.clone());
            assert_eq!(neighbours.number(), own.number());
            assert_eq!((neighbours.own(owner), neighbours.before()), (own, before));
        }
    }

    proptest! {
        #[test]
        fn every_name_comes_back(owner: u128, number: i32, other: String) {
            let ours = format!("{}{number:010}", prefix_of(OwnerId::from_u128(owner)));
            for name in [ours, other] {
                prop_assert_eq!(Node::from(name.as_str()).to_string(), name);
            }
        }
    }
}
