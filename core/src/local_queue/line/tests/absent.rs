//! Who does not ask: nothing is given to it, and after a long time the line does not know it any more.

use super::*;

const LONG: u64 = 60_000;

/// The first holds, and the second waits and does not come any more.
fn one_away() -> Line {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    assert_eq!(next_token(&mut line, 2, at(0)), None);
    assert_eq!(token(line.heard(&claim(1), &question, granted(7), at(1), &rules()).unwrap()), Some(7));
    line
}

/// The first has been told to wait and was away for too long; the second, who cannot go on with its claim, has come by since.
fn one_taken_out() -> Line {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    line.heard(&claim(1), &question, busy(), at(1), &rules()).unwrap();
    for _ in 0..3 {
        line.next(&claim(2).with_ttl(TTL * 2), at(LONG + 1), &rules());
    }
    line
}

#[test]
fn a_release_passes_the_hold_on_to_one_who_was_seen_within_the_patience_and_to_no_other() {
    for (released_at, passes_on) in [(999, true), (1000, false)] {
        let mut line = Line::default();
        let question = asks(&mut line, 1, at(0));
        assert_eq!(next_token(&mut line, 2, at(0)), None);
        line.heard(&claim(1), &question, granted(7), at(released_at), &rules()).unwrap();
        let (way, _) = line.leave(&claim(1), Duration::ZERO, at(released_at), &rules());
        assert_eq!(matches!(way, Way::Done(_)), passes_on, "{released_at}");
        assert_eq!(line.place_of(claim(2).owner()), Some(0), "it keeps its place");
    }
}

/// The next one asked, left, and what it was granted is that of one who does not come.
#[test]
fn a_grant_that_nobody_is_there_to_take_is_given_back() {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    assert_eq!(next_token(&mut line, 2, at(0)), None);
    line.leave(&claim(1), Duration::ZERO, at(1), &rules());
    assert!(line.heard(&claim(1), &question, granted(7), at(1000), &rules()).unwrap().is_none());
    assert!(line.turn.is_none());
    // Once that was sent, the other asks as somebody else.
    assert_ne!(asks(&mut line, 2, at(1001)).claim.owner(), question.claim.owner());
}

/// A store may take longer for an answer than the others have patience.
#[test]
fn who_has_asked_the_store_and_waits_for_its_answer_is_not_absent() {
    let mut line = Line::default();
    let question = asks(&mut line, 1, at(0));
    assert_eq!(token(line.heard(&claim(1), &question, granted(7), at(5000), &rules()).unwrap()), Some(7));
}

#[test]
fn who_is_away_for_long_is_taken_out_and_comes_back_as_another() {
    let mut line = one_away();
    line.leave(&claim(1), Duration::ZERO, at(1000), &rules());
    let question = asks(&mut line, 3, at(LONG - 1));
    assert_eq!(line.waiting.len(), 2);
    let heard = line.heard(&claim(3), &question, granted(70), at(LONG - 1), &rules());
    assert_eq!(token(heard.unwrap()), Some(70));
    for _ in 0..2 {
        assert_eq!(next_token(&mut line, 4, at(LONG)), None);
    }
    assert_eq!(line.waiting.len(), 1, "the fourth");

    // It stands behind the fourth, and asks under an owner that nobody has released.
    assert_eq!(next_token(&mut line, 2, at(LONG + 1)), None);
    line.leave(&claim(4), Duration::ZERO, at(LONG + 2), &rules());
    line.leave(&claim(3), Duration::from_secs(1), at(LONG + 2), &rules());
    assert_ne!(asks(&mut line, 2, at(LONG + 3)).claim.owner(), claim(2).owner());
}

/// The store may have a place of it, or the lock.
#[test]
fn what_one_left_that_was_taken_out_is_released_by_whoever_comes_by_once() {
    let mut line = one_taken_out();
    assert_eq!(line.waiting.len(), 1);
    let orphans = line.take_orphans();
    assert_eq!(orphans.len(), 1);
    assert_eq!((orphans[0].0, orphans[0].1.owner()), (claim(1).owner(), claim(1).owner()));
    assert!(line.take_orphans().is_empty());
    // Its own release names it, too, as long as nobody knows whether the other came through.
    let unknown = Err(Error::new(ErrorKind::Indeterminate, "no reply"));
    line.released(claim(1).owner(), &orphans[0].1, &unknown, at(LONG + 2), &rules());
    let (way, _) = line.leave(&claim(1), Duration::ZERO, at(LONG + 3), &rules());
    assert!(matches!(way, Way::Release(asked) if asked.owner() == claim(1).owner()));
}

/// A session does not end for it, and its owner may never come back.
#[test]
fn what_nobody_could_release_is_released_by_the_next_who_comes_by() {
    let mut line = one_taken_out();
    for _ in 0..3 {
        let orphans = line.take_orphans();
        assert_eq!(orphans.iter().map(|(_, claim)| claim.owner()).collect::<Vec<_>>(), [claim(1).owner()]);
        assert!(line.take_orphans().is_empty(), "one at a time tries it");
        line.orphan_again(orphans[0].0, &orphans[0].1);
    }
}

/// The hold was passed on to it while it was there.
#[test]
fn a_hold_that_was_not_taken_goes_to_the_next_when_its_holder_is_taken_out() {
    let mut line = Line::default();
    let claim = |owner| claim(owner).with_ttl(TTL * 100);
    let Next::Ask(question) = line.next(&claim(1), at(0), &rules()) else { panic!() };
    line.next(&claim(2), at(0), &rules());
    line.heard(&claim(1), &question, granted(7), at(1), &rules()).unwrap();
    line.leave(&claim(1), Duration::ZERO, at(2), &rules());
    assert_eq!(line.holder_of(claim(1).owner()), Some(claim(2).owner()));
    line.take_out_if_gone(at(LONG), &rules());
    assert!(line.turn.is_none() && line.waiting.is_empty());
    let orphans = line.take_orphans();
    assert_eq!(orphans.iter().map(|(_, claim)| claim.owner()).collect::<Vec<_>>(), [claim(1).owner()]);
}

/// It was passed over, or taken out, before the store had answered, and those behind it cannot go on with its claim.
#[test]
fn what_the_store_may_have_of_a_question_that_took_too_long_is_released_with_who_had_asked() {
    let other = claim(2).with_ttl(TTL * 2);
    let answers: [fn() -> crate::Result<Attempt>; 2] =
        [busy, || Err(Error::new(ErrorKind::Indeterminate, "no reply"))];
    for (away, answer) in [1000, LONG].into_iter().flat_map(|away| answers.map(|answer| (away, answer))) {
        // As whom it asks is known to the line alone.
        let mut line = Line::after(true);
        let slow = asks(&mut line, 1, at(1));
        for _ in 0..3 {
            line.next(&other, at(away + 1), &rules());
        }
        let _ = line.heard(&claim(1), &slow, answer(), at(away + 2), &rules());
        let (way, left) = line.leave(&claim(1), Duration::ZERO, at(away + 3), &rules());
        let Way::Release(asked) = way else { panic!("nothing is released after {away} ms") };
        assert_eq!((asked.owner(), left.len()), (slow.claim.owner(), 0));
    }
}

/// Else nobody would ask until the next of them does by itself, a whole interval later.
#[test]
fn the_first_who_is_there_is_told_to_ask_when_the_hold_or_the_place_is_free() {
    for held in [true, false] {
        let mut line = Line::default();
        let question = asks(&mut line, 1, at(0));
        assert_eq!(next_token(&mut line, 2, at(0)), None);
        assert_eq!(next_token(&mut line, 3, at(999)), None);
        let answer = if held { granted(7) } else { busy() };
        line.heard(&claim(1), &question, answer, at(1), &rules()).unwrap();
        let (way, _) = line.leave(&claim(1), Duration::from_secs(1), at(1000), &rules());
        if let Way::Release(asked) = way {
            line.released(claim(1).owner(), &asked, &Ok(Release::Released), at(1001), &rules());
        }
        let mut cx = Context::from_waker(Waker::noop());
        assert!(line.poll_news(claim(3).owner(), &mut cx).is_ready(), "held: {held}");
    }
}
