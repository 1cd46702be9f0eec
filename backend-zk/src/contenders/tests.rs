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
fn those_of_one_number_stand_in_one_order_however_they_are_listed() {
    let (ours, other, last) = (node(7, 1), node(8, 1), node(0, 2));
    let line = ["0__lock__0000000001", &ours, &other, "zz-lock-00000000001", &last];
    for seed in 0..32 {
        let mut children = line;
        fastrand::Rng::with_seed(seed).shuffle(&mut children);
        assert_eq!(nodes(&children), line);
    }
}

#[test]
fn those_of_one_number_stand_as_they_came_and_who_has_left_stands_no_more() {
    let (ours, other) = (node(7, 1), node(8, 1));
    let line = [&node(0, 0), &ours, "a-lock-0000000001", &other, &node(0, 2)].map(str::to_owned);
    let mut queue = Queue::of(line.to_vec());
    assert_eq!(queue.tied(), [&ours, &other, "a-lock-0000000001"].map(str::to_owned));
    let came = HashMap::from([(other.clone(), 5), (ours.clone(), 6)]);
    queue.untie(&came);
    let left: Vec<&str> = queue.0.iter().map(|contender| &*contender.node).collect();
    assert_eq!(left, [&*line[0], &other, &ours, &line[4]]);
}

/// One transaction may make several nodes.
#[test]
fn those_who_came_at_once_stand_as_they_are_named() {
    let line = ["a-lock-0000000001", "b-lock-0000000001", "c-lock-0000000001"].map(str::to_owned);
    let mut queue = Queue::of(line.iter().rev().cloned().collect());
    queue.untie(&HashMap::from([(line[0].clone(), 9), (line[1].clone(), 9), (line[2].clone(), 8)]));
    assert_eq!(queue.0.iter().map(|one| &*one.node).collect::<Vec<_>>(), [&line[2], &line[0], &line[1]]);
}

#[test]
fn nobody_asks_when_those_came_whose_numbers_are_spent() {
    for number in [i32::MAX, i32::MIN] {
        assert_eq!(Queue::of(vec![node(7, number), node(8, number)]).tied(), [""; 0]);
    }
    assert_eq!(Queue::of(vec![node(7, 1), node(8, 2), node(7, 3)]).tied(), [""; 0]);
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
