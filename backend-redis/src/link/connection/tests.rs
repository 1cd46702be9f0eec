//! On a stream whose other end says what a test wants, in virtual time.

use super::*;
use crate::target::Deployment;
use futures_util::FutureExt;
use futures_util::future::{join_all, pending};
use leasehold_store_url::StoreUrl;
use std::panic::AssertUnwindSafe;
use std::task::Context;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout, timeout_at};

fn target() -> Target {
    match Deployment::of(&StoreUrl::parse("redis://localhost?timeout=2s").unwrap()).unwrap().0 {
        Deployment::Single(target) => target,
        other => panic!("{other:?}"),
    }
}

async fn connection() -> (Connection, DuplexStream) {
    let (ours, theirs) = duplex(1024);
    (Connection::over(Box::new(ours), &target(), Arc::default()).await.unwrap(), theirs)
}

/// What a server does that answers each request at once.
async fn answer_on(theirs: &mut DuplexStream) {
    let mut bytes = [0; 1024];
    while let Ok(length @ 1..) = theirs.read(&mut bytes).await {
        for _ in bytes[..length].iter().filter(|byte| **byte == b'*') {
            theirs.write_all(b"+PONG\r\n").await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_polled_costs_nobody_the_connection() {
    let (connection, mut theirs) = connection().await;
    tokio::spawn(async move { answer_on(&mut theirs).await });
    let ping = redis::cmd("PING");
    let mut not_polled = Box::pin(connection.request(&ping));
    assert!((&mut not_polled).now_or_never().is_none());
    for _ in 0..100 {
        sleep(Duration::from_millis(333)).await;
        assert!(connection.is_open());
        let answer = connection.request(&ping).await;
        assert!(matches!(answer, Ok(Value::SimpleString(_))), "{answer:?}");
    }
    assert!(not_polled.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_left_although_somebody_does_not_poll() {
    let (connection, mut theirs) = connection().await;
    let silent_from = Instant::now() + Duration::from_secs(10);
    tokio::spawn(async move {
        let _ = timeout_at(silent_from, answer_on(&mut theirs)).await;
        pending::<()>().await;
    });
    let ping = redis::cmd("PING");
    let mut not_polled = Box::pin(connection.request(&ping));
    assert!((&mut not_polled).now_or_never().is_none());
    sleep(Duration::from_secs(11)).await;
    let start = Instant::now();
    let answer = connection.request(&ping).await;
    assert!(matches!(answer, Err(NoAnswer::Overdue(_))), "{answer:?}");
    let timeout = target().timeouts.request;
    assert!(silent_from.elapsed() >= timeout && start.elapsed() <= timeout * 5 / 4);
    assert!(not_polled.await.is_ok(), "it was answered long ago");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_nothing_is_left_although_nobody_polls() {
    let (connection, _theirs) = connection().await;
    let ping = redis::cmd("PING");
    let mut not_polled = Box::pin(connection.request(&ping));
    assert!((&mut not_polled).now_or_never().is_none());
    let timeout = target().timeouts.request;
    sleep(timeout - Duration::from_millis(1)).await;
    assert!(connection.is_open());
    sleep(timeout / 4 + Duration::from_millis(2)).await;
    assert!(!connection.is_open());
    assert!(matches!(not_polled.await, Err(NoAnswer::Overdue(_))));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_library_leaves_unanswered_ends_with_the_connection() {
    let (connection, theirs) = connection().await;
    let start = Instant::now();
    let mut never = pin!(pending::<RedisResult<()>>());
    let unanswered = connection.answer(never.as_mut());
    drop(theirs);
    let answer = timeout(Duration::from_secs(60), unanswered).await.expect("it waits for ever");
    assert!(matches!(answer, Err(NoAnswer::Broken(_))), "{answer:?}");
    assert!(start.elapsed() < target().timeouts.request);
}

/// Here the library does it: of 2000 times, about ten.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_who_ask_while_it_breaks_are_told_so() {
    let ping = redis::cmd("PING");
    for round in 0..2000 {
        let (connection, theirs) = connection().await;
        drop(theirs);
        // As many as it takes for the driver to go while one of them is on its way to it.
        let mut unanswered = Vec::new();
        for _ in 0..30 * (round % 7 + 1) {
            let mut asked = Box::pin(connection.request(&ping));
            if (&mut asked).now_or_never().is_none() {
                unanswered.push(asked);
            }
        }
        let answers = timeout(Duration::from_secs(30), join_all(unanswered)).await;
        let answers = answers.expect("somebody waits for ever");
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
    }
}

/// On one thread the first who asks is there before the task of the connection.
#[tokio::test(start_paused = true)]
async fn a_request_is_written_and_answered_though_the_task_had_no_turn_before_it() {
    let (connection, mut theirs) = connection().await;
    let ping = redis::cmd("PING");
    // Before that turn, and after it.
    for _ in 0..2 {
        let mut asked = pin!(connection.request(&ping));
        assert!((&mut asked).now_or_never().is_none());
        let mut bytes = [0; 1024];
        let length = theirs.read(&mut bytes).now_or_never().unwrap().unwrap();
        assert!(bytes[..length].ends_with(b"PING\r\n"));
        theirs.write_all(b"+PONG\r\n").await.unwrap();
        let answer = asked.await;
        assert!(matches!(answer, Ok(Value::SimpleString(_))), "{answer:?}");
    }
}

/// A stream that panics when it is written to for the second time.
struct Panicking {
    stream: DuplexStream,
    is_written: bool,
}

impl AsyncWrite for Panicking {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        assert!(!mem::replace(&mut self.is_written, true), "as the test wants it");
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl AsyncRead for Panicking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

/// Whoever asks second has the panic; the one before, and who comes later, have an error.
#[tokio::test(start_paused = true)]
async fn a_panic_in_writing_one_request_ends_the_connection_for_all() {
    let (ours, _theirs) = duplex(1024);
    let stream = Panicking { stream: ours, is_written: false };
    let connection = Connection::over(Box::new(stream), &target(), Arc::default()).await.unwrap();
    let (start, ping) = (Instant::now(), redis::cmd("PING"));
    let mut before = Box::pin(connection.request(&ping));
    assert!((&mut before).now_or_never().is_none());
    // The task has had its turn, as it has as a rule.
    yield_now().await;
    let panics = AssertUnwindSafe(connection.request(&ping)).catch_unwind().now_or_never();
    assert!(panics.unwrap().is_err());
    for asked in [before, Box::pin(connection.request(&ping))] {
        let answer = timeout(Duration::from_secs(60), asked).await.expect("it waits for ever");
        assert!(matches!(answer, Err(NoAnswer::Broken(_))), "{answer:?}");
    }
    assert!(!connection.is_open() && start.elapsed() < target().timeouts.request);
}
