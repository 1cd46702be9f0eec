//! With futures in place of the client library's.

use super::*;
use futures_util::FutureExt;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio::time::timeout;

const SENDERS: usize = 20;
const TURNS: usize = 100;

/// In virtual time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A driver that takes what is sent, and tells how many at once.
fn counting(sizes: mpsc::UnboundedSender<usize>) -> (Arc<Driver>, mpsc::UnboundedSender<()>) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let running = async move {
        let mut batch = Vec::new();
        while receiver.recv_many(&mut batch, SENDERS).await > 0 {
            sizes.send(batch.drain(..).count()).unwrap();
        }
    };
    (Driver::new(running, Arc::default()), sender)
}

/// What is sent at once, turn by turn. All senders wait for the turn to begin, send, and wait for the next, like tasks
/// whose replies come together.
async fn turns() -> Vec<usize> {
    let (told, mut sizes) = mpsc::unbounded_channel();
    let (driver, sender) = counting(told);
    tokio::spawn(driver.task());
    let turn = watch::Sender::new(0);
    for _ in 0..SENDERS {
        let (driver, sender, mut turn) = (Arc::clone(&driver), sender.clone(), turn.subscribe());
        tokio::spawn(async move {
            let mut under_way = None;
            while turn.changed().await.is_ok() {
                // The one before was answered: for this there is a turn.
                drop(under_way.take());
                let request = under_way.insert(driver.enter());
                sender.send(()).unwrap();
                request.is_made();
            }
        });
    }
    yield_now().await;
    let mut seen = Vec::new();
    for number in 1..=TURNS {
        turn.send_replace(number);
        while seen.iter().sum::<usize>() < number * SENDERS {
            seen.push(sizes.recv().await.unwrap());
        }
    }
    seen
}

fn are_parts(seen: &[usize]) {
    assert!(seen.len() <= TURNS * (PARTS + 1), "{} runs for {TURNS} turns: {:?}", seen.len(), &seen[..20]);
    let first = seen.iter().filter(|size| **size == SENDERS).count();
    assert!(first <= TURNS / 10, "{first} turns of {TURNS} were written as one");
}

/// One worker: the scheduler that runs what was woken last next, and no other that takes work off it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_made_in_one_turn_is_written_in_parts() {
    are_parts(&tokio::spawn(turns()).await.unwrap());
}

/// The scheduler that runs what was woken first next.
#[tokio::test]
async fn what_is_made_in_one_turn_is_written_in_parts_by_one_thread_too() {
    are_parts(&turns().await);
}

#[tokio::test]
async fn a_lone_request_is_written_by_who_made_it() {
    let (told, mut sizes) = mpsc::unbounded_channel();
    let (driver, sender) = counting(told);
    let _task = driver.task();
    for _ in 0..3 {
        let under_way = driver.enter();
        sender.send(()).unwrap();
        under_way.is_made();
        assert_eq!(sizes.try_recv(), Ok(1));
    }
}

#[tokio::test]
async fn what_is_little_is_written_when_the_others_have_had_their_turn() {
    let (told, mut sizes) = mpsc::unbounded_channel();
    let (driver, sender) = counting(told);
    tokio::spawn(driver.task());
    let _others: Vec<_> = (0..9).map(|_| driver.enter()).collect();
    driver.unwritten.store(0, Ordering::Relaxed);
    let under_way = driver.enter();
    sender.send(()).unwrap();
    under_way.is_made();
    assert!(sizes.try_recv().is_err());
    assert_eq!(sizes.recv().await, Some(1));
}

#[tokio::test]
async fn who_waits_for_the_end_is_told_whoever_was_driving() {
    let gone = Arc::<Notify>::default();
    let (end, ends) = tokio::sync::oneshot::channel::<()>();
    let driver = Driver::new(async move { drop(ends.await) }, Arc::clone(&gone));
    let task = tokio::spawn(driver.task());
    yield_now().await;
    let told = gone.notified();
    drop(end);
    let under_way = driver.enter();
    under_way.is_made();
    task.await.unwrap();
    told.now_or_never().unwrap();
    // An aborted one is dropped with its task, though others may still know of it.
    let kept = Arc::new(());
    let its = Arc::clone(&kept);
    let driver = Driver::new(async move { drop((pending::<()>().await, its)) }, Arc::clone(&gone));
    let (task, told) = (tokio::spawn(driver.task()), gone.notified());
    yield_now().await;
    task.abort();
    assert!(task.await.is_err());
    told.now_or_never().unwrap();
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// On one thread it is so with each connection: it is used before its task has had a turn.
#[tokio::test(start_paused = true)]
async fn what_comes_when_others_have_driven_it_before_its_task_wakes_the_task() {
    let (told, mut sizes) = mpsc::unbounded_channel();
    let (driver, sender) = counting(told);
    tokio::spawn(driver.task());
    let under_way = driver.enter();
    sender.send(()).unwrap();
    under_way.is_made();
    assert_eq!(sizes.try_recv(), Ok(1));
    // Before the first turn of the task, and after it.
    for _ in 0..2 {
        sender.send(()).unwrap();
        assert_eq!(timeout(PATIENCE, sizes.recv()).await, Ok(Some(1)));
    }
}

/// Panics when it is told to, which wakes nobody.
fn panicking(when: &Arc<AtomicBool>) -> impl Future<Output = ()> + Send + use<> {
    let when = Arc::clone(when);
    poll_fn(
        move |_| if when.load(Ordering::Relaxed) { panic!("as the test wants it") } else { Poll::Pending },
    )
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_end_is_told_of_a_panic_by_the_hand_of_another() {
    for (task_has_run, another_drives) in [(true, true), (true, false), (false, true), (false, false)] {
        let (gone, when) = (Arc::<Notify>::default(), Arc::<AtomicBool>::default());
        let driver = Driver::new(panicking(&when), Arc::clone(&gone));
        let task = tokio::spawn(driver.task());
        if task_has_run {
            yield_now().await;
        }
        let told = gone.notified();
        when.store(true, Ordering::Relaxed);
        let (panics, another) = (driver.enter(), driver.enter());
        assert!(catch_unwind(AssertUnwindSafe(|| panics.is_made())).is_err());
        if another_drives {
            another.is_made();
            assert_eq!(Arc::strong_count(&when), 1, "it is not driven any more");
        }
        timeout(PATIENCE, told).await.unwrap();
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_end_is_told_of_a_panic_in_the_task() {
    let (gone, when) = (Arc::<Notify>::default(), Arc::<AtomicBool>::default());
    let driver = Driver::new(panicking(&when), Arc::clone(&gone));
    when.store(true, Ordering::Relaxed);
    let (task, told) = (tokio::spawn(driver.task()), gone.notified());
    timeout(PATIENCE, told).await.unwrap();
    assert!(task.await.unwrap_err().is_panic());
    driver.enter().is_made();
    assert_eq!(Arc::strong_count(&when), 1);
}
