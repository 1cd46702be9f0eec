//! Who stands in line for a lock: what the names of its children say. Pure, so that every order of them can be tried.

use leasehold_core::OwnerId;

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
            contenders.sort_unstable_by_key(|contender| contender.sequence.since(any));
        }
        Self(contenders)
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn me() -> OwnerId {
        OwnerId::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)
    }

    fn node(owner: u128, sequence: i32) -> String {
        format!("{}{sequence:010}", prefix_of(OwnerId::from_u128(owner)))
    }

    fn nodes(children: &[&str]) -> Vec<String> {
        let queue = Queue::of(children.iter().map(ToString::to_string).collect());
        queue.into_contenders().into_iter().map(|contender| contender.node.into()).collect()
    }

    #[test]
    fn a_node_is_named_as_curator_names_it() {
        assert_eq!(prefix_of(me()), "_c_01234567-89ab-cdef-0123-456789abcdef-lock-");
    }

    #[test]
    fn an_owner_is_found_again_by_its_name() {
        let queue = Queue::of(vec![node(7, 1), node(me().as_u128(), 2)]);
        assert_eq!(queue.places_of(me()), [1]);
        assert_eq!(queue.places_of(OwnerId::from_u128(8)), [0; 0]);
        assert_eq!(queue.node(1), node(me().as_u128(), 2));
    }

    #[test]
    fn an_owner_is_found_however_its_name_is_written_and_no_other_is() {
        for mine in [
            "_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001",
            "_c_01234567-89AB-CDEF-0123-456789ABCDEF-lock-0000000001",
            "_c_01234567-89ab-cdef-0123-456789ABCDEF-__lock__0000000001",
        ] {
            assert_eq!(Queue::of(vec![mine.into()]).places_of(me()), [0], "{mine}");
        }
        for other in [
            "_C_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001",
            "_c_01234567-89ab-cdef-0123-456789abcdee-lock-0000000001",
            "_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001-lock-0000000002",
            "_c_01234567-89ab-cdef-0123-456789abcdeé-lock-0000000001",
            "_c_-lock-0000000001",
        ] {
            let queue = Queue::of(vec![other.into()]);
            assert_eq!((queue.0.len(), queue.places_of(me())), (1, vec![]), "{other}");
        }
    }

    #[test]
    fn the_number_decides_and_not_the_name() {
        // Sorted as text, `_c_0…` would come before `_c_f…` whatever its number.
        let first = node(u128::MAX, 3);
        let second = node(0, 4);
        assert_eq!(nodes(&[&second, &first]), [first.clone(), second.clone()]);
    }

    #[test]
    fn contenders_of_other_programs_stand_in_the_same_line() {
        let children = [
            "0b1cc1a1f2f94ee9a3e6e8a1b1c1d1e1__lock__0000000003",
            "lock-0000000002",
            "_c_0123456789abcdef0123456789abcdef-lock-0000000001",
            "_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000000",
        ];
        assert_eq!(nodes(&children), children.iter().rev().copied().collect::<Vec<_>>());
    }

    #[test]
    fn children_that_are_no_contenders_are_passed_over() {
        for child in [
            "",
            "x",
            "lock-",
            "lock-x",
            "lock-1",
            "lock-00000000x1",
            "lock-+000000001",
            "lock--",
            "_c_01234567-89ab-cdef-0123-456789abcdef-__WRIT__0000000001",
            "leases",
            "lock-0000000001-0000000002x",
            "lock-99999999999999999999",
        ] {
            assert_eq!(nodes(&[child]), [""; 0], "{child:?}");
        }
    }

    #[test]
    fn what_only_looks_like_an_owner_is_none() {
        let long = "0".repeat(200);
        for id in [
            "0123456789ab-cdef-0123-456789abcdef-x",
            "g1234567-89ab-cdef-0123-456789abcdef",
            "+1234567-89ab-cdef-0123-456789abcdef",
            "a-b",
            "",
            &long,
        ] {
            assert_eq!(owner(id), None, "{id}");
        }
    }

    #[test]
    fn numbers_below_zero_come_after_the_largest() {
        let line = [node(1, i32::MAX - 1), node(2, i32::MAX), node(3, i32::MIN), node(4, i32::MIN + 1)];
        assert!(line[2].ends_with("-lock--2147483648"));
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let shuffled = [line[2], line[0], line[3], line[1]];
        assert_eq!(nodes(&shuffled), line);
        let shuffled = [line[1], line[3], line[0], line[2]];
        assert_eq!(nodes(&shuffled), line);
    }

    #[test]
    fn from_below_zero_the_line_goes_on_to_zero() {
        let line = [node(1, -2), node(2, -1), node(3, 0)];
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        assert_eq!(nodes(&[line[2], line[1], line[0]]), line);
    }

    proptest! {
        #[test]
        fn any_window_of_numbers_keeps_its_order(start: i32, seed: u64, gaps in prop::collection::vec(1u32..50_000_000, 1..40)) {
            let mut sequence = start;
            let mut line = vec![node(0, sequence)];
            for (owner, gap) in gaps.iter().enumerate() {
                sequence = sequence.wrapping_add_unsigned(*gap);
                line.push(node(owner as u128 + 1, sequence));
            }
            let mut children = line.clone();
            fastrand::Rng::with_seed(seed).shuffle(&mut children);
            let queue = Queue::of(children);
            let sorted: Vec<String> = queue.into_contenders().into_iter().map(|contender| contender.node.into()).collect();
            prop_assert_eq!(sorted, line);
        }

        #[test]
        fn any_owner_and_number_are_read_back(owner: u128, sequence: i32) {
            let queue = Queue::of(vec![node(owner, sequence)]);
            prop_assert_eq!(queue.first().and_then(Contender::owner), Some(OwnerId::from_u128(owner)));
            prop_assert_eq!(queue.first().map(|first| first.sequence), Some(Sequence(sequence.into())));
        }

        #[test]
        fn no_child_name_is_a_panic(children: Vec<String>) {
            Queue::of(children);
        }
    }
}
