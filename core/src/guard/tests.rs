use super::{Hold, HoldStatus, Lease};
use crate::sync::Mutex;
use crate::{ErrorKind, FencingToken, LockName, Loss, Result, locked};
use futures_util::FutureExt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A hold that another thread releases right after the first read of its status. The release wakes the task that waits for
/// the end by then, as in the holds of the client.
#[derive(Debug)]
struct ReleasedAfterFirstStatus {
    name: LockName,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_released: bool,
    subscriber: Option<Waker>,
    woken: usize,
}

impl Hold for ReleasedAfterFirstStatus {
    fn name(&self) -> &LockName {
        &self.name
    }

    fn token(&self) -> FencingToken {
        FencingToken::new(1)
    }

    fn status(&self) -> HoldStatus {
        let mut state = locked(&self.state);
        if std::mem::replace(&mut state.is_released, true) {
            return HoldStatus::Released;
        }
        if let Some(waker) = state.subscriber.take() {
            state.woken += 1;
            waker.wake();
        }
        HoldStatus::Held { remaining: Duration::from_secs(10), at_risk: false }
    }

    fn ended(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Option<Loss>> + Send>> {
        Box::pin(poll_fn(move |cx| {
            let mut state = locked(&self.state);
            if !state.is_released {
                state.subscriber = Some(cx.waker().clone());
            }
            Poll::Pending
        }))
    }

    fn extend(self: Arc<Self>, _: Duration) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        unimplemented!()
    }

    fn release(self: Arc<Self>) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        unimplemented!()
    }

    fn abandon(self: Arc<Self>) {}
}

#[test]
fn release_after_the_first_status_wakes_protected_work() {
    let state = Mutex::new(State::default());
    let hold = Arc::new(ReleasedAfterFirstStatus { name: LockName::new("x").unwrap(), state });
    let lease = Lease::new(Arc::clone(&hold) as Arc<dyn Hold>);
    let mut work = pin!(lease.protect(std::future::pending::<()>()));
    assert!(work.as_mut().now_or_never().is_none());
    assert_eq!(locked(&hold.state).woken, 1, "the work waits for an end that has come");
    let error = work.now_or_never().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
}
