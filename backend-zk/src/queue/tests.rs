use super::*;
use proptest::prelude::*;

const MODES: [LockMode; 3] = [LockMode::Exclusive, LockMode::Write, LockMode::Shared];

fn me() -> OwnerId {
    OwnerId::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)
}

fn node_in(mode: LockMode, owner: u128, sequence: i32) -> String {
    format!("{}{sequence:010}", prefix_of(OwnerId::from_u128(owner), mode).unwrap())
}

fn node(owner: u128, sequence: i32) -> String {
    node_in(LockMode::Exclusive, owner, sequence)
}

fn names(queue: &Queue) -> Vec<&str> {
    queue.contenders().iter().map(|contender| contender.node.as_str()).collect()
}

fn index_of(queue: &Queue, node: &str) -> Option<usize> {
    names(queue).iter().position(|name| *name == node)
}

fn sorted(children: &[&str]) -> Vec<String> {
    let queue = Queue::of(children.iter().map(ToString::to_string).collect());
    names(&queue).into_iter().map(str::to_owned).collect()
}

/// A queue that was listed in another order.
fn shuffled(mut nodes: Vec<String>, seed: u64) -> Queue {
    fastrand::Rng::with_seed(seed).shuffle(&mut nodes);
    Queue::of(nodes)
}

#[test]
fn node_has_the_name_that_curator_gives_it() {
    for (mode, mark) in MODES.into_iter().zip(["lock-", "__WRIT__", "__READ__"]) {
        let expected = format!("_c_01234567-89ab-cdef-0123-456789abcdef-{mark}");
        assert_eq!(prefix_of(me(), mode).unwrap(), expected);
    }
}

#[test]
fn name_tells_its_mode_whichever_program_made_it() {
    for (name, mode) in [
        ("_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001", LockMode::Exclusive),
        ("_c_01234567-89ab-cdef-0123-456789abcdef-__WRIT__0000000001", LockMode::Write),
        ("_c_01234567-89ab-cdef-0123-456789abcdef-__READ__0000000001", LockMode::Shared),
        ("0b1cc1a1f2f94ee9a3e6e8a1b1c1d1e1__lock__0000000001", LockMode::Exclusive),
        ("0b1cc1a1f2f94ee9a3e6e8a1b1c1d1e1__rlock__0000000001", LockMode::Shared),
        ("lock-0000000001", LockMode::Exclusive),
        ("lock-of-kazoo__rlock__0000000001", LockMode::Shared),
    ] {
        let queue = Queue::of(vec![name.to_owned()]);
        assert_eq!(queue.contenders().first().map(|contender| contender.mode), Some(mode), "{name}");
    }
}

#[test]
fn child_that_is_no_contender_is_ignored() {
    for child in [
        "",
        "x",
        "lock-",
        "lock-x",
        "lock-1",
        "lock-00000000x1",
        "lock-+000000001",
        "lock--",
        "__READ__",
        "_c_01234567-89ab-cdef-0123-456789abcdef-__SEMA__0000000001",
        "leases",
        "lock-0000000001-0000000002x",
        "lock-99999999999999999999",
    ] {
        assert_eq!(sorted(&[child]), [""; 0], "{child:?}");
    }
}

#[test]
fn owner_is_read_in_either_case_and_under_any_mark() {
    for own in [
        "_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001",
        "_c_01234567-89AB-CDEF-0123-456789ABCDEF-__READ__0000000001",
        "_c_01234567-89ab-cdef-0123-456789ABCDEF-__lock__0000000001",
    ] {
        assert_eq!(Queue::of(vec![own.into()]).indices_of(me()), [0], "{own}");
    }
    for other in [
        "_C_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001",
        "_c_01234567-89ab-cdef-0123-456789abcdee-lock-0000000001",
        "_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000001-lock-0000000002",
        "_c_01234567-89ab-cdef-0123-456789abcdeé-lock-0000000001",
        "_c_-lock-0000000001",
    ] {
        let queue = Queue::of(vec![other.into()]);
        assert_eq!((queue.contenders().len(), queue.indices_of(me())), (1, vec![]), "{other}");
    }
}

#[test]
fn text_that_only_looks_like_an_owner_is_refused() {
    let long = "0".repeat(200);
    for id in [
        "0123456789ab-cdef-0123-456789abcdef-x",
        "g1234567-89ab-cdef-0123-456789abcdef",
        "+1234567-89ab-cdef-0123-456789abcdef",
        "a-b",
        "",
        &long,
    ] {
        assert_eq!(owner_from_uuid(id), None, "{id}");
    }
}

#[test]
fn number_decides_and_not_the_name() {
    // Sorted as text, `_c_0…` would be in front of `_c_f…`, and `__READ__` in front of `lock-`.
    let (first, second) = (node(u128::MAX, 3), node_in(LockMode::Shared, 0, 4));
    assert_eq!(sorted(&[&second, &first]), [first.clone(), second.clone()]);
}

#[test]
fn negative_numbers_follow_the_largest() {
    let queue = [node(1, i32::MAX - 1), node(2, i32::MAX), node(3, i32::MIN), node(4, i32::MIN + 1)];
    assert!(queue[2].ends_with("-lock--2147483648"));
    for seed in 0..8 {
        assert_eq!(names(&shuffled(queue.to_vec(), seed)), queue);
    }
    let queue = [node(1, -2), node(2, -1), node(3, 0)];
    assert_eq!(names(&shuffled(queue.to_vec(), 1)), queue);
}

#[test]
fn equal_numbers_have_one_order_however_they_are_listed() {
    let (one, other) = (node(7, 1), node(8, 1));
    let queue = ["0__lock__0000000001", &one, &other, "zz-lock-00000000001", &node(0, 2)].map(str::to_owned);
    for seed in 0..32 {
        assert_eq!(names(&shuffled(queue.to_vec(), seed)), queue);
    }
}

#[test]
fn number_near_the_end_of_the_range_is_repeatable() {
    let number = |number| Queue::of(vec![node(7, number)]).contenders()[0].repeatable_number();
    for unique in [0, 1, -1, i32::MAX - UNUSED_NUMBERS, i32::MIN + UNUSED_NUMBERS] {
        assert_eq!(number(unique), None);
    }
    for repeatable in [i32::MAX - UNUSED_NUMBERS + 1, i32::MAX, i32::MIN, i32::MIN + UNUSED_NUMBERS - 1] {
        assert_eq!(number(repeatable), Some(repeatable));
    }
}

#[test]
fn readers_in_front_hold_together_and_a_reader_behind_a_writer_waits_for_it() {
    use LockMode::{Exclusive, Shared, Write};
    let modes = [Shared, Shared, Write, Shared, Shared, Exclusive, Shared];
    let queue = Queue::of((0..).zip(modes).map(|(number, mode)| node_in(mode, 7, number)).collect());
    let blockers: Vec<_> = (0..modes.len())
        .map(|index| queue.blocker(index).and_then(|it| index_of(&queue, &it.node)))
        .collect();
    assert_eq!(blockers, [None, None, Some(1), Some(2), Some(2), Some(4), Some(5)]);
    assert_eq!(queue.blocker(modes.len()), None, "an index that is not there");
}

fn any_mode() -> impl Strategy<Value = LockMode> {
    prop::sample::select(MODES.to_vec())
}

proptest! {
    #[test]
    fn any_window_of_numbers_keeps_its_order(start: i32, seed: u64, gaps in prop::collection::vec(1u32..50_000_000, 1..40)) {
        let mut sequence = start;
        let mut nodes = vec![node(0, sequence)];
        for (owner, gap) in gaps.iter().enumerate() {
            sequence = sequence.wrapping_add_unsigned(*gap);
            nodes.push(node(owner as u128 + 1, sequence));
        }
        let queue = shuffled(nodes.clone(), seed);
        prop_assert_eq!(names(&queue), nodes);
    }

    /// No two conflicting contenders hold, at most one blocks each, and the first always holds.
    #[test]
    fn holders_of_any_queue_never_conflict(start: i32, seed: u64, modes in prop::collection::vec(any_mode(), 1..20)) {
        let nodes = modes.iter().enumerate().map(|(index, mode)| {
            node_in(*mode, index as u128, start.wrapping_add(i32::try_from(index).unwrap()))
        });
        let queue = shuffled(nodes.collect(), seed);
        let holders: Vec<usize> = (0..modes.len()).filter(|index| queue.blocker(*index).is_none()).collect();
        prop_assert!(holders.contains(&0));
        for (one, other) in holders.iter().flat_map(|one| holders.iter().map(move |other| (one, other))) {
            prop_assert!(one == other || !modes[*one].conflicts_with(modes[*other]));
        }
    }

    /// The one that leaves wakes only contenders that depended on it; when all in front have left, a contender holds.
    #[test]
    fn contender_holds_once_all_conflicting_ones_in_front_have_left(modes in prop::collection::vec(any_mode(), 1..12), index: prop::sample::Index) {
        let index = index.index(modes.len());
        let nodes: Vec<String> = (0..).zip(&modes).map(|(number, mode)| node_in(*mode, 7, number)).collect();
        let own = nodes[index].clone();
        let mut left = nodes;
        let mut wake_ups = 0;
        loop {
            let queue = Queue::of(left.clone());
            let Some(blocker) = queue.blocker(index_of(&queue, &own).unwrap()) else { break };
            wake_ups += 1;
            left.retain(|node| *node != blocker.node);
        }
        let conflicting = modes[..index].iter().filter(|mode| modes[index].conflicts_with(**mode)).count();
        prop_assert_eq!(wake_ups, conflicting);
    }

    #[test]
    fn any_owner_number_and_mode_are_read_back(owner: u128, sequence: i32, mode in any_mode()) {
        let queue = Queue::of(vec![node_in(mode, owner, sequence)]);
        let contender = queue.contenders().first().unwrap();
        let read = (contender.owner(), contender.mode, contender.sequence);
        prop_assert_eq!(read, (Some(OwnerId::from_u128(owner)), mode, Sequence(sequence.into())));
    }

    #[test]
    fn no_child_name_is_a_panic(children: Vec<String>) {
        Queue::of(children);
    }
}
