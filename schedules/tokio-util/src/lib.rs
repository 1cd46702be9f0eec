//! The part of `tokio-util` that the core uses, for `schedules/`. The tracker is the real one; before each call of it the explorer
//! may run another task, as it may before each mutex and atomic of the core. Without that, no schedule has a close between the
//! check that a client is open and the token of a request.

pub use tokio_util::sync;

pub mod task {
    //! `tokio_util::task`.

    pub use task_tracker::TaskTracker;

    pub mod task_tracker {
        //! `tokio_util::task::task_tracker`.

        use shuttle::sync::atomic::{AtomicBool, Ordering::SeqCst};
        use std::future::Future;
        use std::sync::Arc;
        use tokio_util::task::task_tracker as real;
        pub use tokio_util::task::task_tracker::TaskTrackerToken;

        /// A [`TaskTracker`](real::TaskTracker) that lets other tasks run before each call.
        #[derive(Clone, Debug, Default)]
        pub struct TaskTracker {
            tracker: real::TaskTracker,
            switch_point: Arc<AtomicBool>,
        }

        #[expect(missing_docs, reason = "those of the real one")]
        impl TaskTracker {
            pub fn new() -> Self {
                Self::default()
            }

            pub fn token(&self) -> TaskTrackerToken {
                self.switched().token()
            }

            pub fn track_future<F: Future>(&self, future: F) -> real::TrackedFuture<F> {
                self.switched().track_future(future)
            }

            pub fn close(&self) -> bool {
                self.switched().close()
            }

            pub fn wait(&self) -> real::TaskTrackerWaitFuture<'_> {
                self.switched().wait()
            }

            pub fn len(&self) -> usize {
                self.switched().len()
            }

            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            fn switched(&self) -> &real::TaskTracker {
                self.switch_point.load(SeqCst);
                &self.tracker
            }
        }
    }
}
