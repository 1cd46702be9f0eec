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
            line.released(claim(owner).owner(), ended, &Ok(Release::Released), at(2), &rules());
        }
        let ended: Vec<_> = left.iter().chain([&own]).map(Claim::owner).collect();
        (ended, line.is_empty())
    };
    let (one, two) = (claim(1).owner(), claim(2).owner());
    assert_eq!(leaves(1), (vec![two, one], false));
    assert_eq!(leaves(2), (vec![one], true));
}

/// Of several, the store may have heard of one.
#[test]
fn what_was_left_behind_is_remembered_until_the_store_has_heard_of_all_of_it() {
    let mut line = Line::default();
    for of in [1, 2] {
        line.leave_behind(claim(1).owner(), &claim(of), at(0), at(0));
    }
    let unknown = Err(Error::new(ErrorKind::Indeterminate, "no reply"));
    let mut leaves = |of_other: &crate::Result<Release>, of_own| {
        let (Way::Release(own), left) = line.leave(&claim(1), Duration::ZERO, at(1), &rules()) else {
            panic!()
        };
        for ended in &left {
            line.released(claim(1).owner(), ended, of_other, at(2), &rules());
        }
        line.released(own.owner(), &own, of_own, at(2), &rules());
        (left.iter().map(Claim::owner).collect::<Vec<_>>(), own.owner(), line.is_empty())
    };
    let (one, two) = (claim(1).owner(), claim(2).owner());
    assert_eq!(leaves(&unknown, &unknown), (vec![two], one, false));
    assert_eq!(leaves(&unknown, &Ok(Release::Released)), (vec![two], one, false));
    let (way, left) = line.leave(&claim(1), Duration::ZERO, at(3), &rules());
    assert!(matches!(way, Way::Release(own) if own.owner() == two) && left.is_empty());
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

/// As the core does it: again and again, until one lease after it has begun.
#[test]
fn a_release_that_fails_for_as_long_as_its_lease_leaves_nothing_behind() {
    let unavailable = Err(Error::new(ErrorKind::Unavailable, "no store"));
    for passed_on in [false, true] {
        let (mut line, mut holder) = (passed_on_to_none(), 1);
        if passed_on {
            (line, holder) = (super::passed_on(), 2);
            line.leave(&claim(3), Duration::ZERO, at(2), &rules());
        }
        for tried_after in 0..=11 {
            let tried_at = at(10 + tried_after * 1000);
            let (way, left) = line.leave(&claim(holder), Duration::ZERO, tried_at, &rules());
            let Way::Release(asked) = way else { panic!("not tried after {tried_after} s") };
            assert!(left.is_empty() && (tried_after > 10 || asked.owner() == claim(1).owner()));
            line.released(claim(holder).owner(), &asked, &unavailable, tried_at, &rules());
        }
        assert!(line.is_empty(), "{line:?}");
    }
}

fn passed_on_to_none() -> Line {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, granted(7), at(1), &rules()).unwrap();
    line
}

/// A session does not end because it is late, and the claim that the store knows is another's than the one who holds.
#[test]
fn what_is_no_lease_is_remembered_for_as_long_as_its_release_fails() {
    let (mut line, rules) = (passed_on(), Rules { hold: HoldKind::Session, ..rules() });
    line.leave(&claim(3), Duration::ZERO, at(2), &rules);
    for tried_after in 0..100 {
        let tried_at = at(10).plus(TTL * tried_after);
        let (Way::Release(asked), _) = line.leave(&claim(2), Duration::ZERO, tried_at, &rules) else {
            panic!()
        };
        assert_eq!(asked.owner(), claim(1).owner());
        let unavailable = Err(Error::new(ErrorKind::Unavailable, "no store"));
        line.released(claim(2).owner(), &asked, &unavailable, tried_at, &rules);
        line.sweep(tried_at, &rules);
    }
}

/// It was extended: the store keeps it for longer than the ttl that was asked for.
#[test]
fn a_release_that_nobody_finishes_is_forgotten_when_the_line_is_used_after_the_end_of_the_lease() {
    let (mut line, long) = (passed_on_to_none(), claim(1).with_ttl(TTL * 3));
    let Standing::Ask(extension) = line.standing(&long, at(2)) else { panic!() };
    line.renewed(long.owner(), &extension, &Ok(Renewal::Renewed), at(3), &rules());
    let (Way::Release(asked), _) = line.leave(&claim(1), Duration::ZERO, at(4), &rules()) else { panic!() };
    for (used_at, is_known) in [(at(4).plus(TTL), true), (at(2).plus(TTL * 3), false)] {
        line.next(&claim(2).with_waiting(false), used_at, &rules());
        assert_eq!(line.goes_on_with(asked.owner()), is_known);
    }
}

/// Its guard was forgotten, or went with its runtime.
#[test]
fn a_turn_that_nobody_ends_is_forgotten_long_after_its_lease() {
    let mut line = passed_on_to_none();
    line.sweep(at(60_000).plus(TTL - Duration::from_millis(1)), &rules());
    assert!(line.turn.is_some(), "its holder may ask for it again");
    line.sweep(at(60_000).plus(TTL), &rules());
    assert!(line.turn.is_none() && !line.is_empty());
    line.sweep(at(60_000).plus(TTL * 2), &rules());
    assert!(line.is_empty());
}

/// Only the hold itself is to be kept for longer, where its owner asks for that.
#[test]
fn who_holds_and_has_left_something_else_behind_releases_the_hold_and_that_beside_it() {
    let mut line = Line::default();
    line.leave_behind(claim(1).owner(), &claim(9), at(0), at(0));
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, granted(7), at(1), &rules()).unwrap();
    let (way, left) = line.leave(&claim(1), Duration::from_secs(1), at(2), &rules());
    assert!(matches!(way, Way::Release(asked) if asked.owner() == claim(1).owner()));
    assert_eq!(left.iter().map(Claim::owner).collect::<Vec<_>>(), [claim(9).owner()]);
}
