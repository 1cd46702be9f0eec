//! What is said of a hold that was given up.

use super::*;
use leasehold_core::LockMode;

async fn released(replies: fn(usize, &str) -> Reply) -> Result<Release> {
    let (backend, held) = (held_row(replies), claim_of(1));
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    backend.release(&held, Duration::ZERO).await
}

/// The core would take the second answer for that of a release that succeeded and was not heard of.
#[tokio::test(start_paused = true)]
async fn release_of_a_hold_that_had_ended_is_not_held() {
    let ended = |_, text: &str| if text == "ROLLBACK" { Reply::Refused("57P01") } else { granted_to(text) };
    assert_eq!(released(ended).await.unwrap(), Release::NotHeld);
    let broken_and_taken = |_, text: &str| match text {
        "ROLLBACK" => Reply::Breaks,
        text if is_look(text) => last_token(10),
        text => granted_to(text),
    };
    assert_eq!(released(broken_and_taken).await.unwrap(), Release::NotHeld);
}

/// A release that was carried out and whose answer was lost looks like this; and one that was not.
#[tokio::test(start_paused = true)]
async fn release_without_an_answer_is_indeterminate() {
    let broken = |_, text: &str| match text {
        "ROLLBACK" => Reply::Breaks,
        text if is_look(text) => last_token(9),
        text => granted_to(text),
    };
    let silent = |_, text: &str| match text {
        text if text == "ROLLBACK" || is_look(text) => Reply::Never,
        text => granted_to(text),
    };
    for replies in [broken as fn(usize, &str) -> Reply, silent] {
        let error = released(replies).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    }
}

/// As on a runtime of one thread that is kept, and not run any more.
#[tokio::test(start_paused = true)]
async fn release_behind_a_renewal_that_is_not_polled_ends_in_time() {
    let silent = |_, text: &str| {
        static BEATS: AtomicUsize = AtomicUsize::new(0);
        match text {
            BEAT if BEATS.fetch_add(1, Ordering::Relaxed) > 0 => Reply::Never,
            text if is_look(text) => last_token(9),
            text => granted_to(text),
        }
    };
    let (backend, held) = (held_row(silent), claim_of(1));
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    let mut renewal = std::pin::pin!(backend.renew(std::slice::from_ref(&held)));
    assert!(renewal.as_mut().now_or_never().is_none());
    let error = timeout(LONG, backend.release(&held, Duration::ZERO)).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
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
            text if is_look(text) => last_token(9),
            text => granted_to(text),
        }
    };
    let error = released_again(still_locked).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");

    let free = |_, text: &str| {
        static BROKEN: AtomicBool = AtomicBool::new(false);
        match text {
            "ROLLBACK" if !BROKEN.swap(true, Ordering::Relaxed) => Reply::Breaks,
            text if is_look(text) => last_token(9),
            text => granted_to(text),
        }
    };
    assert_eq!(released_again(free).await.unwrap(), Release::NotHeld);

    // When it is asked first, the other has not been entered yet: so the lock held until then.
    let taken_after = |_, text: &str| {
        static ENTERED: AtomicI64 = AtomicI64::new(9);
        match text {
            "ROLLBACK" => Reply::Breaks,
            text if is_look(text) => last_token(ENTERED.fetch_add(1, Ordering::Relaxed)),
            text => granted_to(text),
        }
    };
    assert_eq!(released_again(taken_after).await.unwrap(), Release::NotHeld);

    // The first time, nobody says who was entered.
    let taken = |_, text: &str| {
        static ASKED: AtomicBool = AtomicBool::new(false);
        match text {
            "ROLLBACK" => Reply::Breaks,
            text if is_look(text) && !ASKED.swap(true, Ordering::Relaxed) => Reply::Never,
            text if is_look(text) => last_token(10),
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
        text if is_look(text) => last_token(9),
        text => granted_to(text),
    });
    let held = claim_of(1);
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    let Some(ClaimState::Held(hold)) = backend.claims.get(held.owner()) else { panic!("it is held") };
    backend.release(&held, Duration::ZERO).await.unwrap_err();
    // As a renewal does that had the hold in its hands before, and finds it dead.
    backend.claims.forget_seen(held.owner(), Some(&ClaimState::Held(hold)));
    assert!(matches!(backend.claims.get(held.owner()), Some(ClaimState::Unsettled(_))));
    backend.close().await.unwrap();
    assert!(backend.release(&held, Duration::ZERO).await.is_err());
}

async fn reader_released_again(replies: fn(usize, &str) -> Reply) -> Result<Release> {
    let (backend, held) = (held_row(replies), claim_of(1).with_mode(LockMode::Shared));
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    let first = backend.release(&held, Duration::ZERO).await;
    match first {
        Err(error) if error.kind() == ErrorKind::Indeterminate => {
            backend.release(&held, Duration::ZERO).await
        }
        first => first,
    }
}

fn sessions(number: usize) -> Reply {
    Reply::Rows(vec![vec![Value::int(1)]; number])
}

fn is_session(text: &str) -> bool {
    text.contains("pg_stat_activity")
}

/// The row can be locked as a reader does all the time, and another reader was entered since.
#[tokio::test(start_paused = true)]
async fn release_of_a_reader_without_an_answer_is_unknown_until_its_connection_is_gone() {
    let stays = |_, text: &str| match text {
        "ROLLBACK" => Reply::Breaks,
        text if is_look(text) => shared::readers(9..11, None),
        text if is_session(text) => sessions(1),
        text => granted_to(text),
    };
    let error = reader_released_again(stays).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");

    let ends = |_, text: &str| {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        match text {
            "ROLLBACK" => Reply::Breaks,
            text if is_look(text) => shared::readers(9..11, None),
            text if is_session(text) => sessions(usize::from(ASKED.fetch_add(1, Ordering::Relaxed) < 3)),
            text => granted_to(text),
        }
    };
    assert_eq!(reader_released_again(ends).await.unwrap(), Release::NotHeld);
}

/// An exclusive grant has removed the entry: before the release, or after it had begun.
#[tokio::test(start_paused = true)]
async fn reader_whose_entry_is_gone_was_lost_unless_it_was_there_when_its_release_began() {
    let gone_before = |_, text: &str| match text {
        "ROLLBACK" => Reply::Breaks,
        text if is_look(text) => entered(10, Some(2), "{}"),
        text => granted_to(text),
    };
    let (backend, held) = (held_row(gone_before), claim_of(1).with_mode(LockMode::Shared));
    assert!(matches!(backend.try_acquire(&held).await.unwrap(), Attempt::Granted(_)));
    assert_eq!(backend.release(&held, Duration::ZERO).await.unwrap(), Release::NotHeld);

    let gone_after = |_, text: &str| {
        static LOOKS: AtomicUsize = AtomicUsize::new(0);
        match text {
            "ROLLBACK" => Reply::Breaks,
            // Before the attempt, and when the release has failed.
            text if is_look(text) && LOOKS.fetch_add(1, Ordering::Relaxed) < 2 => {
                shared::readers(9..10, None)
            }
            text if is_look(text) => entered(10, None, "{}"),
            text => granted_to(text),
        }
    };
    assert_eq!(reader_released_again(gone_after).await.unwrap(), Release::NotHeld);

    let unknown_before = |_, text: &str| {
        static LOOKS: AtomicUsize = AtomicUsize::new(0);
        match text {
            "ROLLBACK" => Reply::Breaks,
            text if is_look(text) => match LOOKS.fetch_add(1, Ordering::Relaxed) {
                0 => shared::readers(9..10, None),
                1 => Reply::Never,
                _ => entered(10, Some(2), "{}"),
            },
            text => granted_to(text),
        }
    };
    let error = reader_released_again(unknown_before).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
}

/// The row is locked where writes go; a replica that is behind does not know whom by.
#[tokio::test(start_paused = true)]
async fn inspect_of_a_lock_that_a_replica_shows_as_free_meets_its_holder() {
    let behind = held_row(|_, text| match text {
        text if is_look(text) && text.contains("FOR UPDATE") => entered(10, Some(2), "{}"),
        text if text.contains("NOWAIT") => Reply::Refused("55P03"),
        text => well(text),
    });
    let shown = behind.inspect(claim().name()).await.unwrap().remove(0);
    assert_eq!(shown.owner, Some(OwnerId::from_u128(2)));
}
