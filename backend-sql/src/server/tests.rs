#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

pub(crate) mod double;

use super::*;
use double::{MOMENT, Reply, at_once, server, server_with_sessions};
use futures_util::FutureExt;
use leasehold_core::ErrorKind;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const WORDS: &str = "UPDATE";

fn answered(_: usize, _: &str) -> Reply {
    Reply::Rows(Vec::new())
}

async fn ask(server: &Server, kind: StatementKind) -> Result<Answer> {
    let class = if kind == StatementKind::Read { PoolClass::Attempt } else { PoolClass::Renewal };
    let statement = Statement::new(WORDS, server.dialect().texts(), &server.target().table);
    server.execute(class, kind, &statement, &[]).await
}

/// So many connections that nobody uses.
async fn leave_idle(server: &Server, connections: usize) {
    let mut taken = Vec::new();
    for _ in 0..connections {
        taken.push(server.inner.pool.take(PoolClass::Attempt).await.unwrap());
    }
    taken.into_iter().for_each(PooledConnection::give_back);
}

#[tokio::test(start_paused = true)]
async fn time_limit_of_a_statement_begins_after_connecting() {
    let (server, said) = server("timeout=50ms", |_| Duration::from_millis(60), answered);
    ask(&server, StatementKind::Write).await.unwrap();
    assert_eq!(said.times(WORDS), 1);
}

#[tokio::test(start_paused = true)]
async fn statement_on_a_connection_that_came_late_has_its_whole_time() {
    let (server, said) = server("timeout=50ms&connections=1", at_once, answered);
    let taken = server.connection(PoolClass::Attempt).await.unwrap();
    let free = async {
        sleep(Duration::from_millis(49)).await;
        taken.give_back();
    };
    let (answer, ()) = tokio::join!(ask(&server, StatementKind::Write), free);
    answer.unwrap();
    assert_eq!(said.times(WORDS), 1);
}

/// A thousand tasks that begin together, each with a lock of its own, on a database that is well.
#[tokio::test(start_paused = true)]
async fn queued_statements_do_not_time_out_while_others_are_answered() {
    let (server, said) = server("timeout=50ms&connections=2", at_once, answered);
    let crowd = (0..100).map(|_| ask(&server, StatementKind::Read));
    futures_util::future::join_all(crowd).await.into_iter().for_each(|answer| drop(answer.unwrap()));
    assert_eq!(said.times(WORDS), 100);
}

#[tokio::test(start_paused = true)]
async fn queued_statements_time_out_if_none_is_answered() {
    let (server, _) = server("timeout=50ms&connections=2", at_once, |_, _| Reply::Never);
    let start = Instant::now();
    let crowd = (0..100).map(|_| ask(&server, StatementKind::Read));
    for answer in futures_util::future::join_all(crowd).await {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn broken_statement_is_not_repeated_after_its_time_and_is_indeterminate() {
    let slow_again = |number| Duration::from_millis(if number == 0 { 0 } else { 60 });
    let breaks = |number, _: &str| if number == 0 { Reply::Breaks } else { Reply::Rows(Vec::new()) };
    for (statement, kind) in
        [(StatementKind::Write, ErrorKind::Indeterminate), (StatementKind::Read, ErrorKind::Unavailable)]
    {
        let (server, said) = server("timeout=50ms", slow_again, breaks);
        leave_idle(&server, 1).await;
        assert_eq!(ask(&server, statement).await.unwrap_err().kind(), kind);
        assert_eq!(said.times(WORDS), 1);
        ask(&server, statement).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn broken_write_is_indeterminate_if_no_other_connection_can_be_made() {
    let never_again = |number| if number == 0 { Duration::ZERO } else { Duration::from_secs(3600) };
    let (server, _) = server("timeout=500ms&connect_timeout=50ms", never_again, |_, _| Reply::Breaks);
    leave_idle(&server, 1).await;
    assert_eq!(ask(&server, StatementKind::Write).await.unwrap_err().kind(), ErrorKind::Indeterminate);
}

/// And whatever is in the way of another connection: here, that the store is being closed.
#[tokio::test(start_paused = true)]
async fn broken_write_is_indeterminate_if_the_store_closes_before_it_is_repeated() {
    let (server, said) = server("timeout=500ms", at_once, |_, _| Reply::Breaks);
    leave_idle(&server, 1).await;
    let (asked, ()) = tokio::join!(ask(&server, StatementKind::Write), server.close());
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::Indeterminate);
    assert_eq!(said.times(WORDS), 1);
}

/// A row that somebody else has locked says nothing of the connections to the server.
#[tokio::test(start_paused = true)]
async fn statement_that_takes_too_long_closes_no_connection_that_has_answered_meanwhile() {
    let slow_on_the_second = |number, _: &str| match number {
        1 => Reply::Never,
        _ => Reply::Rows(Vec::new()),
    };
    let (server, said) = server("timeout=50ms", at_once, slow_on_the_second);
    leave_idle(&server, 2).await;
    let slow = ask(&server, StatementKind::Write);
    let quick = async {
        // The newest is taken first, by the one who asks first.
        sleep(MOMENT).await;
        ask(&server, StatementKind::Write).await.unwrap();
    };
    let (slow, ()) = tokio::join!(slow, quick);
    slow.unwrap_err();
    ask(&server, StatementKind::Write).await.unwrap();
    assert_eq!(said.connections(), 2, "another one was made");
}

/// A firewall has forgotten all of them, and says nothing.
#[tokio::test(start_paused = true)]
async fn dead_idle_connections_cost_one_timeout() {
    let silent = |number, _: &str| if number < 3 { Reply::Never } else { Reply::Rows(Vec::new()) };
    for kind in [StatementKind::Read, StatementKind::Write, StatementKind::End] {
        let (server, _) = server("timeout=50ms", at_once, silent);
        leave_idle(&server, 3).await;
        ask(&server, kind).await.unwrap_err();
        ask(&server, kind).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn statement_that_may_not_be_repeated_meets_one_dead_connection_only() {
    let restarted = |number, _: &str| if number < 3 { Reply::Breaks } else { Reply::Rows(Vec::new()) };
    let (server, said) = server("", at_once, restarted);
    leave_idle(&server, 3).await;
    assert_eq!(ask(&server, StatementKind::End).await.unwrap_err().kind(), ErrorKind::Indeterminate);
    assert_eq!(said.times(WORDS), 1);
    ask(&server, StatementKind::End).await.unwrap();
}

/// A `select!` whose other branch takes long keeps the future of the first use, and does not poll it.
#[tokio::test(start_paused = true)]
async fn first_use_that_is_not_polled_delays_no_other() {
    let second_hangs = |number| if number == 1 { Duration::from_secs(3600) } else { Duration::ZERO };
    let (server, _) = server_with_sessions("timeout=500ms&connect_timeout=400ms", second_hangs, answered);
    let mut parked = std::pin::pin!(ask(&server, StatementKind::Read));
    assert!(parked.as_mut().now_or_never().is_none());
    sleep(MOMENT).await;
    assert!(parked.as_mut().now_or_never().is_none());
    timeout(Duration::from_millis(500), ask(&server, StatementKind::Read)).await.unwrap().unwrap();
    parked.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn checks_of_several_callers_do_not_add_up() {
    let silent = |_, text: &str| if text == WORDS { Reply::Rows(Vec::new()) } else { Reply::Never };
    let (server, said) = server_with_sessions("timeout=500ms&connect_timeout=500ms", at_once, silent);
    let asks = (0..5).map(|_| ask(&server, StatementKind::Read));
    let all = timeout(Duration::from_millis(1_100), futures_util::future::join_all(asks)).await.unwrap();
    for asked in all {
        assert_eq!(asked.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(said.times(WORDS), 0);
}

/// The first was carried out, for all that is known, whatever the server says to the second.
#[tokio::test(start_paused = true)]
async fn broken_write_is_indeterminate_if_its_repetition_is_refused() {
    let read_only = |at: usize, _: &str| if at == 0 { Reply::Breaks } else { Reply::Refused("25006") };
    let denied = |at: usize, _: &str| if at == 0 { Reply::Breaks } else { Reply::Refused("42501") };
    for replies in [read_only as fn(usize, &str) -> Reply, denied] {
        let (server, said) = server("timeout=500ms", at_once, replies);
        leave_idle(&server, 1).await;
        let error = ask(&server, StatementKind::Write).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
        assert_eq!(said.times(WORDS), 2);
    }
    let (server, _) = server("timeout=500ms", at_once, denied);
    leave_idle(&server, 1).await;
    let error = ask(&server, StatementKind::Read).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "a read changes nothing");
}
