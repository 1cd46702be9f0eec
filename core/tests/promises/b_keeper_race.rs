//! Breaker: a lock that is acquired while the runtime of the keeper, which keeps nothing at that moment, ends.

use futures_util::FutureExt;
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{AcquireOptions, Clock, DistributedLockExt, LockClient, Moment, Sleep, SystemClock};
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

/// Tells on which runtime the task of the keeper went to sleep.
#[derive(Debug)]
struct Watched {
    clock: SystemClock,
    slept: AtomicUsize,
}

const NOT_YET: usize = 0;
const FALLBACK: usize = 1;
const OTHER: usize = 2;

impl Clock for Watched {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        let is_fallback = thread::current().name() == Some("leasehold");
        self.slept.store(if is_fallback { FALLBACK } else { OTHER }, SeqCst);
        self.clock.sleep_until(moment)
    }
}

/// `Drop for Task` looks at the schedule, and writes `task_runs` under another lock of the same mutex. A lease that is entered in
/// between finds a task that runs, and is renewed by nobody. The two threads meet there by trial: a test of some seconds.
#[test]
fn lock_acquired_while_the_runtime_of_the_keeper_ends_is_renewed() {
    let other = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _entered = other.enter();
    let options = AcquireOptions::new().with_ttl(Duration::from_secs(6));
    let seconds = std::env::var("BREAKER_SECONDS").map_or(20, |seconds| seconds.parse().unwrap());
    let (start, mut delay, mut counts) = (Instant::now(), 0_i64, [0; 3]);
    while start.elapsed() < Duration::from_secs(seconds) {
        let clock = Arc::new(Watched { clock: SystemClock::new(), slept: AtomicUsize::new(NOT_YET) });
        let client = LockClient::builder(Arc::new(MemoryBackend::new()))
            .with_clock(Arc::clone(&clock) as Arc<dyn Clock>)
            .build();
        let ending = Builder::new_current_thread().enable_all().build().unwrap();
        ending.block_on(async {
            client.acquire_with("first", &options).await.unwrap().release().await.unwrap();
            tokio::task::yield_now().await;
        });
        clock.slept.store(NOT_YET, SeqCst);
        let ready = Arc::new(AtomicUsize::new(0));
        let meet = |ready: &AtomicUsize, delay: i64| {
            ready.fetch_add(1, SeqCst);
            while ready.load(SeqCst) < 2 {
                spin_loop();
            }
            (0..delay).for_each(|_| spin_loop());
        };
        let ends = thread::spawn({
            let ready = Arc::clone(&ready);
            move || {
                meet(&ready, -delay);
                drop(ending);
            }
        });
        meet(&ready, delay);
        let guard = client.acquire_with("second", &options).now_or_never().unwrap().unwrap();
        ends.join().unwrap();
        let waiting = Instant::now();
        while clock.slept.load(SeqCst) == NOT_YET && waiting.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_micros(20));
        }
        let outcome = clock.slept.load(SeqCst);
        counts[outcome] += 1;
        // Entered before the look: enter later.
        let step = fastrand::i64(0..4);
        delay += if outcome == FALLBACK { step } else { -step };
        if outcome == NOT_YET {
            println!("{counts:?}, delay {delay}");
            assert!(guard.is_held(), "nobody renewed it: {:?}", guard.loss());
            panic!("the keeper does not run");
        }
    }
    println!("{counts:?}, delay {delay}");
}
