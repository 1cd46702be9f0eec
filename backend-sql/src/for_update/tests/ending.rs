//! What is said of a hold that was given up.

use super::*;

async fn released(replies: fn(usize, &str) -> Reply) -> Result<Release> {
    let (backend, held) = (held_row(replies), claim_of(1));
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    backend.release(&held, Duration::ZERO).await
}

/// The core would take the second answer for that of a release that succeeded and was not heard of.
#[tokio::test(start_paused = true)]
async fn a_hold_that_had_ended_was_not_released() {
    let ended = |_, text: &str| if text == "ROLLBACK" { Reply::Refused("57P01") } else { granted_to(text) };
    assert_eq!(released(ended).await.unwrap(), Release::NotHeld);
    let broken_and_taken = |_, text: &str| match text {
        "ROLLBACK" => Reply::Breaks,
        text if is_last_token(text) => last_token(10),
        text => granted_to(text),
    };
    assert_eq!(released(broken_and_taken).await.unwrap(), Release::NotHeld);
}

/// A release that was carried out and whose answer was lost looks like this; and one that was not.
#[tokio::test(start_paused = true)]
async fn release_without_an_answer_is_an_unknown_outcome() {
    let broken = |_, text: &str| match text {
        "ROLLBACK" => Reply::Breaks,
        text if is_last_token(text) => last_token(9),
        text => granted_to(text),
    };
    let silent = |_, text: &str| match text {
        text if text == "ROLLBACK" || is_last_token(text) => Reply::Never,
        text => granted_to(text),
    };
    for replies in [broken as fn(usize, &str) -> Reply, silent] {
        let error = released(replies).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    }
}

/// The first connection breaks when it is to be rolled back; what becomes of the hold is said by these replies.
async fn released_again(replies: fn(usize, &str) -> Reply) -> Result<Release> {
    let (backend, held) = (held_row(replies), claim_of(1));
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    let error = backend.release(&held, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    backend.release(&held, Duration::ZERO).await
}

/// The core takes "not held" for the success of the first time, so it is not said of what is still locked, or was taken.
#[tokio::test(start_paused = true)]
async fn repeated_release_looks_for_the_outcome_of_the_first() {
    let still_locked = |_, text: &str| {
        static LOCKED: AtomicBool = AtomicBool::new(false);
        match text {
            "ROLLBACK" => Reply::Breaks,
            text if text.contains("NOWAIT") && LOCKED.swap(true, Ordering::Relaxed) => {
                Reply::Refused("55P03")
            }
            text if is_last_token(text) => last_token(9),
            text => granted_to(text),
        }
    };
    let error = released_again(still_locked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");

    let free = |_, text: &str| {
        static BROKEN: AtomicBool = AtomicBool::new(false);
        match text {
            "ROLLBACK" if !BROKEN.swap(true, Ordering::Relaxed) => Reply::Breaks,
            text if is_last_token(text) => last_token(9),
            text => granted_to(text),
        }
    };
    assert_eq!(released_again(free).await.unwrap(), Release::NotHeld);

    // When it is asked first, the other has not been entered yet: so the lock held until then.
    let taken_after = |_, text: &str| {
        static ENTERED: AtomicI64 = AtomicI64::new(9);
        match text {
            "ROLLBACK" => Reply::Breaks,
            text if is_last_token(text) => last_token(ENTERED.fetch_add(1, Ordering::Relaxed)),
            text => granted_to(text),
        }
    };
    assert_eq!(released_again(taken_after).await.unwrap(), Release::NotHeld);

    // The first time, nobody says who was entered.
    let taken = |_, text: &str| {
        static ASKED: AtomicBool = AtomicBool::new(false);
        match text {
            "ROLLBACK" => Reply::Breaks,
            text if is_last_token(text) && !ASKED.swap(true, Ordering::Relaxed) => Reply::Never,
            text if is_last_token(text) => last_token(10),
            text => granted_to(text),
        }
    };
    let error = released_again(taken).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
}

/// "Nothing to end" would be the success of a release that nobody has answered.
#[tokio::test(start_paused = true)]
async fn unknown_outcome_is_kept_over_a_late_renewal_and_over_close() {
    let backend = held_row(|_, text| match text {
        "ROLLBACK" => Reply::Breaks,
        text if is_last_token(text) => last_token(9),
        text => granted_to(text),
    });
    let held = claim_of(1);
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    let Some(Entry::Held(hold)) = backend.entry(held.owner()) else { panic!("it is held") };
    backend.release(&held, Duration::ZERO).await.unwrap_err();
    // As a renewal does that had the hold in its hands before, and finds it dead.
    backend.forget_seen(held.owner(), Some(&Entry::Held(hold)));
    assert!(matches!(backend.entry(held.owner()), Some(Entry::Unsettled { .. })));
    backend.close().await.unwrap();
    assert!(backend.release(&held, Duration::ZERO).await.is_err());
}
