//! How many bytes a test's process has of its allocator: a count is the same on any machine, and what the system says
//! is not.

#![expect(unsafe_code, reason = "an allocator is unsafe by its trait; every call is passed on as it came")]

use leasehold_core::{Clock, Moment, Sleep, SystemClock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The system's allocator, counting. For a test target of its own, in which one test runs at a time:
///
/// ```
/// # use leasehold_test_stores::Footprint;
/// #[global_allocator]
/// static FOOTPRINT: Footprint = Footprint::new();
///
/// let before = FOOTPRINT.in_use();
/// let kept = vec![0_u8; 1000];
/// assert!(FOOTPRINT.in_use() >= before + 1000);
/// # drop(kept);
/// ```
#[derive(Debug, Default)]
pub struct Footprint {
    in_use: AtomicUsize,
    most: AtomicUsize,
}

/// The system's clock, on which no sleep ends within a test: nobody renews, and nobody asks again for want of news.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SystemClockWithoutAlarm;

impl Footprint {
    /// A footprint that has counted nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { in_use: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// The bytes that were asked for and not given back.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Relaxed)
    }

    /// The most that ever were in use, since the last call of this.
    pub fn take_most(&self) -> usize {
        self.most.swap(self.in_use(), Relaxed)
    }
}

impl Clock for SystemClockWithoutAlarm {
    fn now(&self) -> Moment {
        SystemClock::new().now()
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        SystemClock::new().sleep_until(moment.plus(Duration::from_secs(3600)))
    }
}

// SAFETY: `System` keeps the contract, and nothing is changed on the way to it.
unsafe impl GlobalAlloc for Footprint {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = self.in_use.fetch_add(layout.size(), Relaxed) + layout.size();
        self.most.fetch_max(in_use, Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.in_use.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}
