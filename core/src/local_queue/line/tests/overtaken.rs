//! Answers that overtake each other.

use super::*;

#[test]
fn a_busy_that_was_asked_before_the_grant_takes_nothing_back() {
    let mut line = Line::default();
    let (slow, quick) = (asks(&mut line, 1, at(0)), asks(&mut line, 1, at(1)));
    assert_eq!(token(line.heard(&claim(1), &quick, granted(7), at(2), &rules()).unwrap()), Some(7));
    assert_eq!(token(line.heard(&claim(1), &slow, busy(), at(3), &rules()).unwrap()), None);
    assert_eq!(line.holder_of(OwnerId::from_u128(1)), Some(OwnerId::from_u128(1)));
}

#[test]
fn a_loss_that_was_heard_of_an_earlier_turn_ends_no_later_one() {
    let mut line = passed_on();
    let Standing::Ask(of_the_first_turn) = line.standing(&claim(2), at(2)) else { panic!() };
    // Its own question shows that the store has granted the claim anew.
    let again = asks(&mut line, 2, at(3));
    let heard = line.heard(&claim(2), &again, granted(70), at(4), &rules());
    assert_eq!(token(heard.unwrap()), Some(70));
    let lost = Ok(Renewal::Lost(LossCause::Gone));
    assert_eq!(line.renewed(OwnerId::from_u128(2), &of_the_first_turn, &lost, at(5), &rules()), None);
    assert_eq!(line.holder_of(OwnerId::from_u128(1)), Some(OwnerId::from_u128(2)));
}

/// Between the two grants, somebody has released the first of them by hand.
#[test]
fn a_grant_that_is_heard_after_a_later_one_gives_no_token_of_its_own() {
    let mut line = Line::default();
    let slow = asks(&mut line, 1, at(0));
    assert_eq!(next_token(&mut line, 2, at(1)), None);
    let quick = asks(&mut line, 2, at(1001));
    assert_eq!(quick.claim.owner(), slow.claim.owner(), "it goes on with the claim of the absent one");
    assert_eq!(token(line.heard(&claim(1), &slow, granted(70), at(1002), &rules()).unwrap()), None);
    assert_eq!(next_token(&mut line, 2, at(1003)), Some(70));
    line.heard(&claim(2), &quick, granted(7), at(1004), &rules()).unwrap();
    line.leave(&claim(2), Duration::ZERO, at(1005), &rules());
    assert_eq!(next_token(&mut line, 1, at(1005)), Some(71));
}

/// Else it would be asked for again and again: what is held by now is another grant.
#[test]
fn a_store_that_has_lost_its_tokens_begins_another_turn() {
    let mut line = Line::default();
    let first = asks(&mut line, 1, at(0));
    assert_eq!(token(line.heard(&claim(1), &first, granted(70), at(1), &rules()).unwrap()), Some(70));
    let turn = line.turn.as_ref().unwrap();
    let again = Question::of_turn(turn, at(2));
    assert_eq!(token(line.heard(&claim(1), &again, granted(7), at(3), &rules()).unwrap()), Some(7));
}

/// What was asked by one who has left is nobody's, whatever the next has by then: they do not share a claim.
#[test]
fn a_late_answer_to_one_who_has_left_is_not_taken_for_that_of_the_next() {
    let other = claim(2).with_ttl(TTL * 2);
    let its_next = |line: &mut Line, now| match line.next(&other, now, &rules()) {
        Next::Ask(question) => question,
        Next::Answer(answer) => panic!("{answer:?}"),
    };
    let late_answers: [fn() -> crate::Result<Attempt>; 3] =
        [|| granted(80), busy, || Err(Error::new(ErrorKind::Indeterminate, "no reply"))];
    for late_answer in late_answers {
        let mut line = Line::default();
        let slow = asks(&mut line, 1, at(0));
        line.leave(&claim(1), Duration::ZERO, at(1), &rules());
        // While the next one asks, and when it has been granted.
        let own = its_next(&mut line, at(2));
        if let Ok(heard) = line.heard(&claim(1), &slow, late_answer(), at(3), &rules()) {
            assert_eq!(token(heard), None);
        }
        assert!(line.turn.is_none());
        assert!(line.contender.as_ref().is_some_and(|it| it.waiting_since == at(2) && !it.left_something));
        assert_eq!(token(line.heard(&other, &own, granted(70), at(4), &rules()).unwrap()), Some(70));
        if let Ok(heard) = line.heard(&claim(1), &slow, late_answer(), at(5), &rules()) {
            assert_eq!(token(heard), None);
        }
        let turn = line.turn.as_ref().unwrap();
        assert_eq!(
            (turn.claim().owner(), turn.holder(), turn.first().get()),
            (other.owner(), other.owner(), 70)
        );
    }
}

/// Others have asked with the same claim meanwhile, and were told to wait after that grant was over.
#[test]
fn a_hand_over_that_is_heard_late_is_as_old_as_its_question_knew() {
    let handed_over =
        |token| Ok(Attempt::Granted(Grant::new(FencingToken::new(token)).with_tokens(8).from_hand_over()));
    let ends_at = |line: &Line| line.turn.as_ref().unwrap().ends_at();

    let mut line = Line::default();
    let first = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &first, busy(), at(1), &rules()).unwrap();
    let slow = asks(&mut line, 1, at(500));
    assert_eq!(next_token(&mut line, 2, at(501)), None);
    let quick = asks(&mut line, 2, at(9000));
    line.heard(&claim(2), &quick, busy(), at(9001), &rules()).unwrap();
    line.heard(&claim(1), &slow, handed_over(7), at(9002), &rules()).unwrap();
    assert_eq!(ends_at(&line), at(0).plus(TTL));

    // The same, of a turn that the store has ended and granted again.
    let mut line = Line::default();
    let first = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &first, granted(7), at(1), &rules()).unwrap();
    let again = asks(&mut line, 1, at(5000));
    line.heard(&claim(1), &again, handed_over(70), at(5001), &rules()).unwrap();
    assert_eq!(ends_at(&line), at(0).plus(TTL));
}

/// Two ask with one claim, because the store takes longer than the others have patience. What the first of them is granted is
/// given to the second, which hears of an outage, and of which no release will come.
#[test]
fn a_hold_that_was_given_to_one_who_hears_of_an_outage_goes_to_the_next_or_is_released() {
    let outage = || Err(Error::new(ErrorKind::Unavailable, "all connections are in use"));
    for first_has_left in [false, true] {
        let mut line = Line::default();
        let slow = asks(&mut line, 1, at(0));
        let quick = asks(&mut line, 2, at(1001));
        assert_eq!(quick.claim.owner(), slow.claim.owner());
        assert_eq!(token(line.heard(&claim(1), &slow, granted(7), at(1002), &rules()).unwrap()), None);
        assert_eq!(line.holder_of(slow.claim.owner()), Some(claim(2).owner()));
        if first_has_left {
            line.leave(&claim(1), Duration::ZERO, at(1003), &rules());
        }
        assert!(line.heard(&claim(2), &quick, outage(), at(1004), &rules()).is_err());
        if first_has_left {
            assert!(line.turn.is_none());
            let orphans = line.take_orphans();
            assert_eq!(orphans.iter().map(|(_, it)| it.owner()).collect::<Vec<_>>(), [slow.claim.owner()]);
        } else {
            assert_eq!(next_token(&mut line, 1, at(1005)), Some(7));
        }
    }
}

/// The store shows what the turn was asked for, and keeps it for as long.
#[test]
fn a_hold_goes_to_nobody_who_asks_for_another_one() {
    let mut line = Line::default();
    let slow = asks(&mut line, 1, at(0));
    asks(&mut line, 2, at(1001));
    let other = claim(3).with_ttl(TTL * 2);
    assert!(matches!(line.next(&other, at(1500), &rules()), Next::Answer(Attempt::Busy(_))));
    line.leave(&claim(1), Duration::ZERO, at(1501), &rules());
    // The second has been away for as long as the others have patience.
    assert_eq!(token(line.heard(&claim(1), &slow, granted(7), at(2100), &rules()).unwrap()), None);
    assert_eq!(line.holder_of(slow.claim.owner()), None);
}

/// Its numbers begin anew with the line.
#[test]
fn an_answer_to_somebody_of_an_earlier_line_is_none_to_a_question_of_this_one() {
    let slow = asks(&mut Line::default(), 1, at(0));
    let mut line = Line::default();
    let own = asks(&mut line, 2, at(90_000));
    assert_eq!(slow.of_contender, own.of_contender);
    assert_eq!(token(line.heard(&claim(1), &slow, busy(), at(90_001), &rules()).unwrap()), None);
    assert_eq!(line.contender.as_ref().map(|it| it.unanswered), Some(1));
    assert_eq!(token(line.heard(&claim(2), &own, granted(7), at(90_002), &rules()).unwrap()), Some(7));
}
