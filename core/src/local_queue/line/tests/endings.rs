//! What may still be in the store, and who ends it.

use super::*;

/// One owner can leave the claims of several behind, and several owners the claim of one.
#[test]
fn all_that_was_left_behind_is_ended_with_who_left_it() {
    let mut line = Line::default();
    for (owner, of) in [(1, 1), (1, 2), (2, 1), (1, 1)] {
        line.leave_behind(claim(owner).owner(), &claim(of), at(0), at(0));
    }
    let mut leaves = |owner| {
        let (way, left) = line.leave(&claim(owner), Duration::ZERO, at(1), &rules());
        let Way::Release(own) = way else { panic!() };
        for ended in left.iter().chain([&own]) {
            line.released(claim(owner).owner(), ended, &Ok(Release::Released), at(2));
        }
        let ended: Vec<_> = left.iter().chain([&own]).map(Claim::owner).collect();
        (ended, line.is_empty())
    };
    let (one, two) = (claim(1).owner(), claim(2).owner());
    assert_eq!(leaves(1), (vec![two, one], false));
    assert_eq!(leaves(2), (vec![one], true));
}

/// It may have been granted something by a question whose answer nobody heard.
#[test]
fn who_is_not_known_here_releases_in_the_store_what_it_may_have_there() {
    let mut line = Line::default();
    line.leave_behind(claim(2).owner(), &claim(1), at(0), at(0));
    let (Way::Release(asked), left) = line.leave(&claim(3), Duration::ZERO, at(1), &rules()) else {
        panic!()
    };
    assert_eq!((asked.owner(), left.len()), (claim(3).owner(), 0));
    assert!(
        matches!(line.standing(&claim(3), at(1)), Standing::Ask(asked) if asked.claim.owner() == claim(3).owner())
    );
    // Of the first, another goes on with the claim, and ends it.
    assert!(matches!(line.leave(&claim(1), Duration::ZERO, at(1), &rules()).0, Way::Done(Release::NotHeld)));
    assert!(matches!(line.standing(&claim(1), at(1)), Standing::Known(Renewal::Lost(LossCause::Gone))));
}

#[test]
fn a_turn_that_its_holder_has_let_run_out_is_ended_with_that_one_and_nobody_goes_on_with_its_claim() {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, granted(7), at(1), &rules()).unwrap();
    assert_eq!(asks(&mut line, 2, at(1).plus(TTL)).claim.owner(), claim(2).owner());
    let (Way::Release(asked), _) = line.leave(&claim(1), Duration::ZERO, at(2).plus(TTL), &rules()) else {
        panic!()
    };
    assert_eq!(asked.owner(), claim(1).owner());
}

/// The place of the first in the store's queue is ended by whoever is told of it, not forgotten.
#[test]
fn a_refusal_takes_nothing_away_of_which_the_store_has_something() {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, busy(), at(1), &rules()).unwrap();
    assert_eq!(next_token(&mut line, 2, at(1)), None);
    line.waiting.iter_mut().for_each(|waiter| waiter.its.told = false);
    let question = asks(&mut line, 2, at(1001));
    let refused = Err(Error::new(ErrorKind::Unavailable, "no store"));
    line.heard(&claim(2), &question, refused, at(1002), &rules()).unwrap_err();
    assert_eq!(line.contender.as_ref().map(|it| it.claim.owner()), Some(claim(1).owner()));
}

/// Its lease may have ended while it did not come: a hold that is counted from its return would be another's, too.
#[test]
fn who_is_passed_over_and_comes_back_is_handed_the_lock_as_of_its_last_question() {
    let other =
        |owner| Claim::new(LockName::new("job").unwrap(), OwnerId::from_u128(owner), TTL, "other".into());
    let (one, two) = (claim(1), other(2).with_waiting(true));
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(5));
    line.heard(&one, &question, busy(), at(6), &rules()).unwrap();
    assert!(matches!(line.next(&two, at(10), &rules()), Next::Answer(Attempt::Busy(_))));
    // The first has not come for longer than the others have patience, and they cannot go on with its claim.
    let Next::Ask(question) = line.next(&two, at(2_000), &rules()) else { panic!() };
    line.heard(&two, &question, granted(7), at(2_001), &rules()).unwrap();
    line.leave(&two, Duration::ZERO, at(3_000), &rules());

    let question = asks(&mut line, 1, at(60_000));
    let handed_over = Grant::new(FencingToken::new(6)).from_hand_over();
    line.heard(&one, &question, Ok(Attempt::Granted(handed_over)), at(60_001), &rules()).unwrap();

    assert_eq!(line.turn.as_ref().map(Turn::since), Some(at(5)));
}
