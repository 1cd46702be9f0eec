//! On a stream whose other end says what a test wants.

use super::*;
use crate::target::Deployment;
use futures_util::FutureExt;
use futures_util::future::{join_all, pending};
use leasehold_store_url::StoreUrl;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep, timeout};

fn target() -> Target {
    match Deployment::from_url(&StoreUrl::parse("redis://localhost?timeout=2s").unwrap()).unwrap().0 {
        Deployment::Single(target) => target,
        other => panic!("{other:?}"),
    }
}

/// In RESP2, which begins with nothing.
async fn connection() -> (Connection, DuplexStream) {
    let (ours, theirs) = duplex(1024);
    let waiters = Arc::default();
    let made = Connection::over(Box::new(ours), &target(), ProtocolVersion::RESP2, None, &waiters).await;
    (made.unwrap(), theirs)
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
async fn request_that_is_not_polled_ends_no_connection() {
    let (connection, mut theirs) = connection().await;
    tokio::spawn(async move { answer_on(&mut theirs).await });
    let ping = redis::cmd("PING");
    let mut not_polled = Box::pin(connection.request(&ping));
    assert!((&mut not_polled).now_or_never().is_none());
    for _ in 0..100 {
        sleep(Duration::from_millis(333)).await;
        let answer = connection.request(&ping).await;
        assert!(matches!(answer, Ok(Value::SimpleString(_))), "{answer:?}");
    }
    assert!(connection.is_open() && not_polled.await.is_ok(), "its answer is there");
}

#[tokio::test(start_paused = true)]
async fn overdue_answer_ends_the_connection_for_all_requests() {
    let (connection, _theirs) = connection().await;
    let (ping, start) = (redis::cmd("PING"), Instant::now());
    let first = connection.request(&ping);
    let second = async {
        sleep(Duration::from_secs(1)).await;
        connection.request(&ping).await
    };
    for answer in <[_; 2]>::from(tokio::join!(first, second)) {
        assert!(answer.as_ref().is_err_and(RedisError::is_timeout), "{answer:?}");
    }
    assert_eq!(start.elapsed().as_secs(), target().timeouts.request.as_secs());
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn request_that_the_library_leaves_unanswered_ends_with_the_connection() {
    let (connection, theirs) = connection().await;
    let start = Instant::now();
    let unanswered = connection.answer(pending::<RedisResult<()>>());
    drop(theirs);
    let answer = timeout(Duration::from_secs(60), unanswered).await.expect("it waits for ever");
    assert!(answer.as_ref().is_err_and(|why| !why.is_timeout()), "{answer:?}");
    assert!(start.elapsed() < target().timeouts.request);
}

/// The library leaves about ten requests of 2000 rounds unanswered.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_under_way_end_when_the_connection_breaks() {
    let ping = redis::cmd("PING");
    for round in 0..2000 {
        let (connection, theirs) = connection().await;
        drop(theirs);
        // As many as it takes for the task to go while one of them is on its way to it.
        let mut unanswered = Vec::new();
        for _ in 0..30 * (round % 7 + 1) {
            let mut asked = Box::pin(connection.request(&ping));
            if (&mut asked).now_or_never().is_none() {
                unanswered.push(asked);
            }
        }
        let start = Instant::now();
        let answers = timeout(Duration::from_secs(30), join_all(unanswered)).await;
        let answers = answers.expect("a request waits for ever");
        let is_broken = |answer: &RedisResult<Value>| answer.as_ref().is_err_and(|why| !why.is_timeout());
        assert!(answers.iter().all(is_broken), "{answers:?}");
        assert!(start.elapsed() < target().timeouts.request, "not only after the time-out");
    }
}
