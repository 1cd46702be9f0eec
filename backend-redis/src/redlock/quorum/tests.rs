use super::*;

fn reply(last: u64, clock: u64) -> ClaimReply {
    ClaimReply { last, clock, own: None }
}

fn down() -> Error {
    Error::new(ErrorKind::Unavailable, "down")
}

/// The votes of five nodes: so many agree, refuse and fail.
fn votes(agreed: usize, refused: usize, failed: usize) -> ClaimVotes {
    let mut votes = ClaimVotes::new(Quorum { nodes: 5 });
    (0..agreed).for_each(|node| votes.agreed.push((node, reply(0, 0))));
    (0..refused).for_each(|n| votes.refused.push(Some(Duration::from_millis(10 * (n as u64 + 1)))));
    (0..failed).for_each(|node| votes.fail(node, down()));
    votes
}

#[test]
fn majority_is_more_than_half_also_of_an_even_number() {
    let majority = |nodes| Quorum { nodes }.majority();
    assert_eq!([3, 4, 5, 6, 7].map(majority), [2, 3, 3, 4, 4]);
    assert!(!Quorum { nodes: 5 }.blocked_by(2) && Quorum { nodes: 5 }.blocked_by(3));
    assert!(!Quorum { nodes: 4 }.blocked_by(1) && Quorum { nodes: 4 }.blocked_by(2));
}

#[test]
fn round_is_decided_once_no_answer_can_change_it() {
    assert!(matches!(votes(3, 0, 0).decision(), Some(Decision::Agreed)));
    assert!(matches!(votes(3, 2, 0).decision(), Some(Decision::Agreed)));
    assert!(votes(2, 2, 0).decision().is_none());
    assert!(votes(2, 0, 2).decision().is_none());
    assert!(matches!(votes(0, 3, 0).decision(), Some(Decision::Refused)));
    // The name is contended on the nodes that can be asked, and those are a majority.
    assert!(matches!(votes(2, 1, 2).decision(), Some(Decision::Refused)));
    assert!(matches!(votes(1, 2, 1).decision(), Some(Decision::Refused)));
    // One node left to answer tells whether it is contention or an outage.
    assert!(votes(0, 2, 2).decision().is_none());
    assert!(matches!(votes(0, 2, 3).decision(), Some(Decision::NotAnswered)));
    assert!(matches!(votes(2, 0, 3).decision(), Some(Decision::NotAnswered)));
}

#[test]
fn refused_round_ends_when_enough_leases_have_ended() {
    // Two agree already: the first of the three to end makes a majority. None does: it takes three.
    assert_eq!(votes(2, 3, 0).ends_in(), Some(Duration::from_millis(10)));
    assert_eq!(votes(0, 5, 0).ends_in(), Some(Duration::from_millis(30)));
    let mut foreign = votes(0, 4, 0);
    foreign.refused.push(None);
    assert_eq!(foreign.ends_in(), None);
}

#[test]
fn next_token_is_larger_than_all_and_follows_the_middle_clock() {
    let token = |replies: &[(u64, u64)]| {
        let mut votes = ClaimVotes::new(Quorum { nodes: 5 });
        replies
            .iter()
            .enumerate()
            .for_each(|(node, (last, clock))| votes.agreed.push((node, reply(*last, *clock))));
        votes.next_token().map(FencingToken::get)
    };
    assert_eq!(token(&[(0, 100), (0, 120), (0, 110)]), Some(110));
    assert_eq!(token(&[(500, 100), (7, 120), (0, 110)]), Some(501));
    assert_eq!(token(&[(0, 100), (0, 110), (0, 120), (0, 1_000_000)]), Some(110), "one clock is far ahead");
    assert_eq!(token(&[(FencingToken::MAX_COUNTED, 1), (0, 1), (0, 1)]), None);
}

#[test]
fn token_counts_as_granted_only_on_a_majority() {
    let votes = |own: [u64; 4]| {
        let mut votes = ClaimVotes::new(Quorum { nodes: 5 });
        for (node, own) in own.into_iter().enumerate() {
            let own = (own > 0).then(|| FencingToken::new(own));
            votes.agreed.push((node, ClaimReply { last: 9, clock: 0, own }));
        }
        votes.token_of_majority()
    };
    assert_eq!(votes([8, 9, 9, 9]), Some(FencingToken::new(9)));
    assert_eq!(votes([8, 9, 9, 0]), None);
    assert_eq!(votes([0; 4]), None);
}

#[test]
fn error_of_a_round_has_the_worst_kind_that_decides() {
    let kind = |failed: Vec<Error>| not_answered(Quorum { nodes: 5 }, 5 - failed.len(), &failed).kind();
    let unknown = || Error::new(ErrorKind::Indeterminate, "no answer");
    let denied = || Error::new(ErrorKind::Denied, "no right");
    assert_eq!(kind(vec![down(), down(), down()]), ErrorKind::Unavailable);
    assert_eq!(kind(vec![down(), unknown(), down()]), ErrorKind::Indeterminate);
    assert_eq!(kind(vec![denied(), down(), down()]), ErrorKind::Unavailable, "waiting may heal it");
    assert_eq!(kind(vec![denied(), denied(), denied()]), ErrorKind::Denied);
    assert_eq!(kind(vec![]), ErrorKind::Indeterminate);
}
