use std::task::{Context, Poll, Waker};

/// One who waits for news: whether there is any that it has not heard, and who is to be woken. Kept small, a few words
/// where a channel takes many more: there may be thousands.
///
/// For backends, which keep it under a lock of their own.
///
/// ```
/// # use leasehold_core::Listener;
/// # use std::task::{Context, Waker};
/// let (mut listener, mut cx) = (Listener::default(), Context::from_waker(Waker::noop()));
/// assert!(listener.poll(&mut cx).is_pending());
/// let waker = listener.tell();
/// // The lock is given back here.
/// waker.into_iter().for_each(Waker::wake);
/// assert!(listener.poll(&mut cx).is_ready());
/// ```
#[derive(Debug, Default)]
pub struct Listener {
    wake: Option<Waker>,
    has_news: bool,
}

impl Listener {
    /// There is news: it is kept until it is heard, also if nobody listens now. Returns the waker; wake it after releasing your
    /// own lock.
    #[must_use = "who listens is not woken here"]
    pub fn tell(&mut self) -> Option<Waker> {
        self.has_news = true;
        self.wake.take()
    }

    /// Ready once after there was news, however often. Whoever has asked last is woken. A future that is dropped in between
    /// leaves the news to the next.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.has_news) {
            return Poll::Ready(());
        }
        match &mut self.wake {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn news_is_heard_once_also_if_it_came_before_anybody_listened() {
        let (mut listener, mut cx) = (Listener::default(), Context::from_waker(Waker::noop()));
        for _ in 0..2 {
            for _ in 0..2 {
                listener.tell().into_iter().for_each(Waker::wake);
            }
            assert!(listener.poll(&mut cx).is_ready());
            assert!(listener.poll(&mut cx).is_pending());
        }
    }

    #[test]
    fn who_listens_last_is_woken() {
        let (mut listener, woken) = (Listener::default(), [Arc::<Woken>::default(), Arc::default()]);
        for listening in &woken {
            let waker = Waker::from(Arc::clone(listening));
            assert!(listener.poll(&mut Context::from_waker(&waker)).is_pending());
        }
        listener.tell().into_iter().for_each(Waker::wake);
        assert!(
            listener.poll(&mut Context::from_waker(Waker::noop())).is_ready(),
            "who was woken hears of it"
        );
        assert!(listener.tell().is_none(), "nobody listens now");
        assert_eq!(woken.map(|it| it.0.load(Ordering::Relaxed)), [0, 1]);
    }
}
