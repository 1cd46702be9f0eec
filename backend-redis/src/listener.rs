use std::task::{Context, Poll, Waker};

/// One waiter of a notification: a flag for one that it has not seen, and its waker. A few words, where a channel takes many
/// more: there may be thousands.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    wake: Option<Waker>,
    is_notified: bool,
}

impl Listener {
    /// Notifies the waiter. The notification is kept until it is seen, also if there is no waiter now. Returns the waker; wake
    /// it after releasing your own lock.
    #[must_use = "the waiter is woken by the returned waker"]
    pub(crate) fn tell(&mut self) -> Option<Waker> {
        self.is_notified = true;
        self.wake.take()
    }

    /// Ready once after one notification or several. The last caller is woken. A future that is dropped in between leaves the
    /// notification to the next.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.is_notified) {
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
    fn notification_is_seen_once_also_if_it_came_before_the_first_poll() {
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
    fn last_poller_is_woken() {
        let (mut listener, woken) = (Listener::default(), [Arc::<Woken>::default(), Arc::default()]);
        for listening in &woken {
            let waker = Waker::from(Arc::clone(listening));
            assert!(listener.poll(&mut Context::from_waker(&waker)).is_pending());
        }
        listener.tell().into_iter().for_each(Waker::wake);
        assert!(
            listener.poll(&mut Context::from_waker(Waker::noop())).is_ready(),
            "the poll after the wake-up is ready"
        );
        assert!(listener.tell().is_none(), "no waiter is left");
        assert_eq!(woken.map(|it| it.0.load(Ordering::Relaxed)), [0, 1]);
    }
}
