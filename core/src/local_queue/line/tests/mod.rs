//! Calls that are repeated, and answers that never come: what no client does on command.

mod absent;
mod endings;
mod overtaken;
mod standing_back;

use super::*;
use crate::{Error, ErrorKind, Grant, LockName};

const TTL: Duration = Duration::from_secs(10);

fn at(millis: u64) -> Moment {
    Moment::since_origin(Duration::from_millis(millis))
}

fn rules() -> Rules {
    Rules {
        queue: LocalQueue::new(8).unwrap(),
        patience: Duration::from_secs(1),
        gone_after: Duration::from_secs(60),
        hold: HoldKind::Lease,
        stand_back: None,
    }
}

fn claim(owner: u128) -> Claim {
    Claim::new(LockName::new("job").unwrap(), OwnerId::from_u128(owner), TTL, "".into()).with_waiting(true)
}

fn granted(token: u64) -> crate::Result<Attempt> {
    Ok(Attempt::Granted(Grant::new(FencingToken::new(token)).with_tokens(8)))
}

fn busy() -> crate::Result<Attempt> {
    Ok(Attempt::Busy(crate::Busy::new().with_place_in_queue()))
}

fn asks(line: &mut Line, owner: u128, now: Moment) -> Question {
    match line.next(&claim(owner), now, &rules()) {
        Next::Ask(question) => question,
        Next::Answer(answer) => panic!("{answer:?}"),
    }
}

/// The token that one is told of; `None` if it is told to wait.
fn token(attempt: Option<Attempt>) -> Option<u64> {
    match attempt {
        Some(Attempt::Granted(grant)) => Some(grant.token.get()),
        Some(Attempt::Busy(_)) | None => None,
    }
}

fn next_token(line: &mut Line, owner: u128, now: Moment) -> Option<u64> {
    match line.next(&claim(owner), now, &rules()) {
        Next::Answer(answer) => token(Some(answer)),
        Next::Ask(question) => panic!("{question:?}"),
    }
}

/// The first has asked, been granted, and passed on to the second; the third waits.
fn passed_on() -> Line {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    for owner in [2, 3] {
        assert_eq!(next_token(&mut line, owner, at(0)), None);
    }
    let heard = line.heard(&claim(1), &question, granted(7), at(1), &rules());
    assert_eq!(token(heard.unwrap()), Some(7));
    assert!(matches!(line.leave(&claim(1), Duration::ZERO, at(1), &rules()).0, Way::Done(Release::Released)));
    assert_eq!(next_token(&mut line, 2, at(1)), Some(8));
    line
}

#[test]
fn a_late_release_of_one_who_has_passed_it_on_ends_nothing_of_the_others() {
    let mut line = passed_on();
    for _ in 0..2 {
        assert!(matches!(
            line.leave(&claim(1), Duration::ZERO, at(2), &rules()).0,
            Way::Done(Release::NotHeld)
        ));
    }
    assert!(matches!(line.standing(&claim(1), at(2)), Standing::Known(Renewal::Lost(LossCause::Gone))));
    assert_eq!(line.holder_of(OwnerId::from_u128(1)), Some(OwnerId::from_u128(2)));
}

#[test]
fn what_is_granted_when_all_have_left_is_nobodys_and_is_ended_with_who_had_asked() {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.leave(&claim(1), Duration::ZERO, at(1), &rules());
    assert!(line.heard(&claim(1), &question, granted(7), at(2), &rules()).unwrap().is_none());
    let (Way::Release(asked), _) = line.leave(&claim(1), Duration::ZERO, at(3), &rules()) else { panic!() };
    assert_eq!(asked.owner(), claim(1).owner());
    line.released(asked.owner(), &asked, &Ok(Release::Released), at(3), &rules());
    assert!(line.is_empty());
}

#[test]
fn a_release_without_an_answer_is_remembered_until_the_lease_has_ended() {
    let mut line = passed_on();
    line.leave(&claim(3), Duration::ZERO, at(2), &rules());
    let (Way::Release(asked), _) = line.leave(&claim(2), Duration::ZERO, at(2), &rules()) else { panic!() };
    assert_eq!(asked.owner(), claim(1).owner(), "it is the claim that the store knows");
    let unknown = Err(Error::new(ErrorKind::Indeterminate, "no reply"));
    line.released(claim(2).owner(), &asked, &unknown, at(3), &rules());
    assert!(
        matches!(line.leave(&claim(2), Duration::ZERO, at(4), &rules()).0, Way::Release(again) if again.owner() == asked.owner())
    );
    line.released(claim(2).owner(), &asked, &unknown, at(4).plus(TTL), &rules());
    assert!(line.is_empty());
}

#[test]
fn who_does_not_ask_any_more_is_passed_over_and_what_it_was_given_goes_to_the_next() {
    let mut line = passed_on();
    line.leave(&claim(2), Duration::ZERO, at(2), &rules());
    // The third was given it and does not come; the fourth does.
    assert_eq!(next_token(&mut line, 4, at(1000)), Some(9), "the token that nobody has seen");
    assert_eq!(next_token(&mut line, 3, at(1001)), None);
}

#[test]
fn a_claim_that_the_next_cannot_go_on_with_is_ended_with_who_left_it() {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, busy(), at(1), &rules()).unwrap();
    let other = claim(2).with_ttl(TTL * 2);
    line.next(&other, at(1000), &rules());
    let Next::Ask(question) = line.next(&other, at(1001), &rules()) else { panic!() };
    assert_eq!(question.claim.owner(), other.owner());
    let (Way::Release(asked), _) = line.leave(&claim(1), Duration::ZERO, at(1002), &rules()) else {
        panic!()
    };
    assert_eq!(asked.owner(), claim(1).owner());
}

/// It was passed on to one who does not come, its lease is over here, and the store has kept it for longer than that.
#[test]
fn a_grant_that_the_store_has_kept_gives_no_token_twice() {
    let mut line = passed_on();
    line.leave(&claim(2), Duration::ZERO, at(2), &rules());
    let late = at(2).plus(TTL);
    let question = asks(&mut line, 4, late);
    assert_eq!(question.claim.owner(), claim(1).owner(), "it goes on with what the store may still have");
    assert!(
        line.heard(&claim(4), &question, granted(7), late, &rules()).unwrap().is_none(),
        "the first had 7"
    );
    line.released(claim(4).owner(), &question.claim, &Ok(Release::Released), late, &rules());
    let question = asks(&mut line, 4, late);
    assert_eq!(token(line.heard(&claim(4), &question, granted(70), late, &rules()).unwrap()), Some(70));
}

/// Another went on with its claim while it was absent, lost the lock, and releases late.
#[test]
fn a_late_release_ends_nothing_of_one_who_asks_with_its_own_claim_again() {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, busy(), at(1), &rules()).unwrap();
    assert_eq!(next_token(&mut line, 2, at(1)), None);
    let question = asks(&mut line, 2, at(1001));
    assert_eq!(question.claim.owner(), claim(1).owner());
    assert_eq!(token(line.heard(&claim(2), &question, granted(7), at(1002), &rules()).unwrap()), Some(7));
    let late = at(1002).plus(TTL);
    let question = asks(&mut line, 1, late);
    assert_eq!(token(line.heard(&claim(1), &question, granted(70), late, &rules()).unwrap()), Some(70));
    let (way, left) = line.leave(&claim(2), Duration::ZERO, late, &rules());
    let ends_it = matches!(way, Way::Release(asked) if asked.owner() == claim(1).owner());
    assert!(!ends_it && left.is_empty(), "it is the first one's by now");
    assert_eq!(line.holder_of(claim(1).owner()), Some(claim(1).owner()));
}

/// The first was absent: the second was granted its claim, and releases it when the turn is over. That claim, too.
fn released_by_the_second() -> (Line, Claim) {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, busy(), at(1), &rules()).unwrap();
    assert_eq!(next_token(&mut line, 2, at(1)), None);
    let question = asks(&mut line, 2, at(1001));
    assert_eq!(token(line.heard(&claim(2), &question, granted(7), at(1002), &rules()).unwrap()), Some(7));
    let (Way::Release(asked), _) = line.leave(&claim(2), Duration::ZERO, at(1200), &rules()) else {
        panic!()
    };
    assert_eq!(asked.owner(), claim(1).owner());
    (line, asked)
}

/// The word of a release may be late, and would end what its claim was granted meanwhile.
#[test]
fn a_claim_whose_release_was_sent_is_not_asked_with_again() {
    let (mut line, asked) = released_by_the_second();
    let again = asks(&mut line, 1, at(1201));
    assert_ne!(again.claim.owner(), asked.owner());
    let late = Err(Error::new(ErrorKind::Indeterminate, "no reply"));
    line.released(claim(2).owner(), &asked, &late, at(1202), &rules());
    assert_eq!(token(line.heard(&claim(1), &again, granted(70), at(1203), &rules()).unwrap()), Some(70));
    // Nor does the release that is tried again name it.
    let (Way::Release(retried), _) = line.leave(&claim(2), Duration::ZERO, at(1204), &rules()) else {
        panic!()
    };
    assert_eq!(retried.owner(), asked.owner());
    assert_eq!(line.holder_of(again.claim.owner()), Some(claim(1).owner()));
}

/// Nor by one who has left the line since, and comes back.
#[test]
fn a_claim_whose_release_was_sent_is_not_asked_with_by_who_stands_in_line_anew() {
    let (mut line, _) = released_by_the_second();
    // It is granted under its next name, and does not begin before that is over.
    let again = asks(&mut line, 1, at(1201));
    assert_eq!(token(line.heard(&claim(1), &again, granted(70), at(1203), &rules()).unwrap()), Some(70));
    let late = at(1203).plus(TTL);
    let other = claim(3).with_ttl(TTL * 2);
    assert!(matches!(line.next(&other, late, &rules()), Next::Ask(_)));
    assert_eq!(next_token(&mut line, 1, late), None);
    line.leave(&other, Duration::ZERO, late, &rules());
    assert_ne!(asks(&mut line, 1, late).claim.owner(), claim(1).owner());
}

#[test]
fn nobody_goes_on_with_the_claim_of_one_who_was_refused_and_may_come_again_with_it() {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    assert_eq!(next_token(&mut line, 2, at(0)), None);
    let refused = Err(Error::new(ErrorKind::Unavailable, "no store"));
    assert!(line.heard(&claim(1), &question, refused, at(1), &rules()).is_err());
    assert_eq!(asks(&mut line, 2, at(2)).claim.owner(), claim(2).owner());
}

/// The store says again what it has granted, and with which token: the first of the turn, which another has had.
#[test]
fn who_was_passed_a_hold_and_asks_again_is_told_its_own_token() {
    let mut line = passed_on();
    let again = asks(&mut line, 2, at(2));
    assert_eq!(token(line.heard(&claim(2), &again, granted(7), at(3), &rules()).unwrap()), Some(8));
}

/// A place is for those who wait here: one who tries but once has nothing to release.
#[test]
fn who_tries_but_once_is_told_of_no_place_and_who_was_told_to_wait_keeps_its_own() {
    let place = |attempt| match attempt {
        Some(Attempt::Busy(busy)) => busy.queued,
        other => panic!("{other:?}"),
    };
    let mut line = Line::default();
    let once = claim(1).with_waiting(false);
    let Next::Ask(question) = line.next(&once, at(0), &rules()) else { panic!() };
    let no_place = Ok(Attempt::Busy(crate::Busy::new()));
    assert!(!place(line.heard(&once, &question, no_place.clone(), at(1), &rules()).unwrap()));

    let question = asks(&mut line, 2, at(2));
    assert!(place(line.heard(&claim(2), &question, no_place, at(3), &rules()).unwrap()));
    let again = asks(&mut line, 2, at(4));
    let refused = Err(Error::new(ErrorKind::Unavailable, "no store"));
    line.heard(&claim(2), &again, refused, at(5), &rules()).unwrap_err();
    assert_eq!(next_token(&mut line, 3, at(6)), None, "the second, who will release, comes before it");
}

/// The task that waits for the answer went with its runtime, and another withdraws in its name.
#[test]
fn what_was_asked_and_never_answered_is_released_with_who_had_asked() {
    let leaves = |line: &mut Line, owner, now| line.leave(&claim(owner), Duration::ZERO, now, &rules()).0;
    let is_released = |way: Way| matches!(way, Way::Release(asked) if asked.owner() == claim(1).owner());
    let mut line = Line::default();
    asks(&mut line, 1, at(0));
    assert!(is_released(leaves(&mut line, 1, at(1))));

    // The answer to an earlier question with the same claim says nothing of the later one.
    let mut line = Line::default();
    let early = asks(&mut line, 1, at(0));
    line.contender = None;
    asks(&mut line, 1, at(1));
    line.heard(&claim(1), &early, Ok(Attempt::Busy(crate::Busy::new())), at(2), &rules()).unwrap();
    assert!(is_released(leaves(&mut line, 1, at(3))));

    // One that was answered leaves nothing.
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, Ok(Attempt::Busy(crate::Busy::new())), at(1), &rules()).unwrap();
    assert!(matches!(leaves(&mut line, 1, at(2)), Way::Done(Release::NotHeld)));
    assert!(line.is_empty());
}

/// It was passed over while it waited for the answer, which says that nothing was done: it will not release.
#[test]
fn what_one_who_was_passed_over_may_have_left_is_nobodys_once_it_was_refused() {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    let other = claim(2).with_ttl(TTL * 2);
    line.next(&other, at(1), &rules());
    line.next(&other, at(1001), &rules());
    let refused = Err(Error::new(ErrorKind::Unavailable, "no store"));
    line.heard(&claim(1), &question, refused, at(1002), &rules()).unwrap_err();
    let orphans: Vec<_> = line.take_orphans().into_iter().map(|(owner, _)| owner).collect();
    assert_eq!(orphans, [claim(1).owner()]);
    // Its claim was released, should it come again.
    line.leave(&other, Duration::ZERO, at(1003), &rules());
    assert_ne!(asks(&mut line, 1, at(1004)).claim.owner(), claim(1).owner());
}

/// Those who stand in line are not there, and the lock may be free.
#[test]
fn who_tries_but_once_asks_the_store_unless_somebody_is_there_who_waits() {
    let once = claim(9).with_waiting(false);
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, busy(), at(0), &rules()).unwrap();
    assert!(matches!(line.next(&once, at(999), &rules()), Next::Answer(Attempt::Busy(_))));
    let Next::Ask(question) = line.next(&once, at(1000), &rules()) else { panic!() };
    assert_eq!(question.claim.owner(), once.owner());
    assert_eq!(asks(&mut line, 1, at(1001)).claim.owner(), claim(1).owner(), "it has kept its place");
    // And in the end it is taken out.
    assert!(matches!(line.next(&once, at(61_001), &rules()), Next::Ask(_)));
    assert!(line.waiting.is_empty());
}

/// Only the answer to a question of this turn says that the store has kept it since that was sent: what was handed over may
/// have begun before, and a smaller token is of the past.
#[test]
fn a_turn_is_lengthened_by_the_same_grant_and_by_no_other() {
    let mut line = Line::default();
    let (slow, first) = (asks(&mut line, 1, at(0)), asks(&mut line, 1, at(1)));
    line.heard(&claim(1), &first, granted(7), at(2), &rules()).unwrap();
    let handed_over = Ok(Attempt::Granted(Grant::new(FencingToken::new(7)).from_hand_over()));
    let ends_at = |line: &Line| line.turn.as_ref().unwrap().ends_at();
    for (question, answer, end) in [
        (Question { sent_at: at(1000), ..slow }, granted(5), at(1)),
        (asks(&mut line, 1, at(1000)), handed_over, at(1)),
        (asks(&mut line, 1, at(1000)), granted(7), at(1000)),
    ] {
        line.heard(&claim(1), &question, answer, at(1001), &rules()).unwrap();
        assert_eq!(ends_at(&line), end.plus(TTL));
    }
}
