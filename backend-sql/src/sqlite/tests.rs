//! Cases that set the clock or the queue of the writer. The rest is tested from outside.

use super::*;
use leasehold_core::{ErrorKind, OwnerId};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _};
use std::future::poll_fn;
use std::pin::Pin;
use std::pin::pin;
use std::task::Poll;
use std::time::SystemTime;
use tempfile::TempDir;
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(30);

struct Store {
    directory: TempDir,
}

impl Store {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn url(&self) -> StoreUrl {
        let file = self.directory.path().join("locks.db");
        StoreUrl::parse(&format!("sqlite:{}", file.display())).unwrap()
    }

    fn table(&self, clock: HostClock) -> SqliteTable {
        SqliteTable::with_clock(Options::parse(&self.url()).unwrap(), &Namespace::default(), clock)
    }

    fn table_now(&self) -> SqliteTable {
        self.table(HostClock::for_test(Some("boot"), SystemTime::now))
    }

    /// Keeps every other writer out.
    async fn lock_file(&self) -> SqliteConnection {
        let file = self.url().path().unwrap();
        let options = SqliteConnectOptions::new().filename(file);
        let mut raw = options.connect().await.unwrap();
        raw.execute("BEGIN IMMEDIATE").await.unwrap();
        raw
    }

    async fn unlock_file(&self, raw: &mut SqliteConnection) {
        raw.execute("ROLLBACK").await.unwrap();
    }

    fn length(&self, suffix: &str) -> u64 {
        let file = self.directory.path().join(format!("locks.db{suffix}"));
        std::fs::metadata(file).unwrap().len()
    }
}

fn claim(name: &str) -> Claim {
    let owner = OwnerId::random().unwrap();
    Claim::new(LockName::new(name).unwrap(), owner, TTL, "{}".into())
}

async fn granted(table: &SqliteTable, claim: &Claim) -> u64 {
    match table.grant(claim).await.unwrap() {
        Granting::Granted(token) => token.get(),
        Granting::Refused(row) => panic!("refused: {row:?}"),
        Granting::Held => panic!("refused without a look"),
    }
}

/// The row that refused the claim.
async fn refused(table: &SqliteTable, claim: &Claim) -> LeaseRow {
    match table.grant(claim).await.unwrap() {
        Granting::Granted(token) => panic!("granted: {token}"),
        Granting::Refused(row) => row.unwrap(),
        Granting::Held => panic!("refused without a look"),
    }
}

/// The time until the end of the lease that refused the claim.
async fn held_for(table: &SqliteTable, claim: &Claim) -> Option<Duration> {
    let row = refused(table, claim).await;
    row.owner.and(row.ends_in())
}

#[tokio::test]
async fn wall_clock_step_moves_no_lease_and_lowers_no_token() {
    let store = Store::new();
    let at = |wall| store.table(HostClock::for_test(Some("boot"), wall));
    let today = at(SystemTime::now);
    let in_2200 = at(|| SystemTime::UNIX_EPOCH + Duration::from_secs(230 * 31_557_600));
    let in_1970 = at(|| SystemTime::UNIX_EPOCH);
    let before_1970 = at(|| SystemTime::UNIX_EPOCH - Duration::from_secs(1));

    let held = claim("a");
    let mut last = granted(&today, &held).await;
    for table in [&in_2200, &in_1970, &before_1970] {
        assert!(held_for(table, &claim("a")).await.is_some_and(|ends_in| ends_in <= TTL));
    }
    assert!(today.release(&held, Duration::ZERO).await.unwrap());
    for table in [&in_2200, &in_1970, &before_1970, &today] {
        let next = claim("a");
        let token = granted(table, &next).await;
        assert!(token > last, "{token} after {last}");
        last = token;
        assert!(table.release(&next, Duration::ZERO).await.unwrap());
    }
}

#[tokio::test]
async fn token_grows_by_one_while_the_wall_clock_stands_still() {
    let store = Store::new();
    let table = store.table(HostClock::for_test(Some("boot"), || {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }));
    let first = 1_700_000_000_000_000;
    for token in first..first + 100 {
        let mine = claim("a");
        assert_eq!(granted(&table, &mine).await, token);
        assert_eq!(table.look(mine.name(), ReadFor::Attempt).await.unwrap().unwrap().token.get(), token);
        assert!(table.release(&mine, Duration::ZERO).await.unwrap());
    }
}

#[tokio::test]
async fn reboot_ends_leases_and_lingers() {
    let store = Store::new();
    let boot = |boot| store.table(HostClock::for_test(Some(boot), SystemTime::now));
    let (first, second) = (boot("first"), boot("second"));
    let (held, lingering) = (claim("held"), claim("lingering"));
    granted(&first, &held).await;
    granted(&first, &lingering).await;
    assert!(first.release(&lingering, TTL).await.unwrap());
    for name in ["held", "lingering"] {
        // Once to end what was left behind, and once to be granted.
        assert_eq!(refused(&second, &claim(name)).await.ends_in(), None);
        granted(&second, &claim(name)).await;
    }
}

#[tokio::test]
async fn containers_that_hide_the_boot_exclude_each_other() {
    let store = Store::new();
    let hidden = || store.table(HostClock::for_test(None, SystemTime::now));
    let (one, other, host) = (hidden(), hidden(), store.table_now());
    granted(&one, &claim("a")).await;
    for table in [&other, &host] {
        assert!(held_for(table, &claim("a")).await.is_some());
    }
    granted(&host, &claim("b")).await;
    assert!(held_for(&one, &claim("b")).await.is_some());
}

#[tokio::test]
async fn released_name_is_free_for_a_process_that_read_the_clock_earlier() {
    let store = Store::new();
    let table = store.table_now();
    let behind = HostClock::for_test(Some("boot"), SystemTime::now).behind_by(Duration::from_secs(5));
    let waited_long = store.table(behind);
    let held = claim("a");
    granted(&table, &held).await;
    assert!(table.release(&held, Duration::ZERO).await.unwrap());
    granted(&waited_long, &claim("a")).await;
}

#[tokio::test]
async fn end_grant_ends_the_grant_of_its_token_once() {
    let store = Store::new();
    let table = store.table_now();
    let held = claim("a");
    let token = FencingToken::new(granted(&table, &held).await);
    let other = FencingToken::new(token.get() - 1);
    assert!(!table.end_grant(held.name(), other).await.unwrap());
    assert!(held_for(&table, &claim("a")).await.is_some());
    assert!(table.end_grant(held.name(), token).await.unwrap());
    assert!(!table.end_grant(held.name(), token).await.unwrap());
    granted(&table, &claim("a")).await;
}

#[tokio::test]
async fn connection_has_the_promised_settings() {
    let store = Store::new();
    let table = store.table_now();
    for (worker, query_only) in [(&table.writer, 0), (&table.reader, 1)] {
        let expected =
            [("synchronous", 2), ("trusted_schema", 0), ("busy_timeout", 2000), ("query_only", query_only)];
        for (pragma, value) in expected {
            let query = move || sqlx::query(AssertSqlSafe(format!("PRAGMA {pragma}")));
            let rows = worker.run(query).await.unwrap().rows;
            let set: i64 = sqlx::Row::get(&rows[0], 0);
            assert_eq!(set, value, "{pragma}");
        }
    }
}

#[tokio::test]
async fn claims_that_wait_for_a_writer_share_one_transaction() {
    let store = Store::new();
    let table = Arc::new(store.table_now());
    granted(&table, &claim("first")).await;
    let before = store.length("-wal");
    let claims: Vec<Claim> = (0..64).map(|number| claim(&format!("n{number}"))).collect();

    let mut raw = store.lock_file().await;
    let mut asking = tokio::task::JoinSet::new();
    for claim in claims.clone() {
        let table = Arc::clone(&table);
        asking.spawn(async move { granted(&table, &claim).await });
    }
    // Each task has asked once it was polled; the first one's turn waits for the file.
    tokio::task::yield_now().await;
    store.unlock_file(&mut raw).await;
    assert_eq!(asking.join_all().await.len(), claims.len());

    // Each transaction writes a page at least to the log; 64 rows fit in few pages.
    let pages = (store.length("-wal") - before) / 4096;
    assert!(pages < 16, "{pages} pages for 64 claims");
    for name in claims {
        refused(&table, &claim(name.name().as_str())).await;
    }
}

#[tokio::test]
async fn release_and_claim_in_one_batch_hand_the_name_over() {
    let store = Store::new();
    let table = store.table_now();
    let held = claim("a");
    granted(&table, &held).await;
    let mut raw = store.lock_file().await;
    let other = claim("other");
    let next = claim("a");
    let mut first = pin!(granted(&table, &other));
    poll_once(&mut first).await;
    // Until the task has taken up the first alone.
    tokio::task::yield_now().await;
    let mut asked = pin!(granted(&table, &next));
    poll_once(&mut asked).await;
    let mut given = pin!(table.release(&held, Duration::ZERO));
    poll_once(&mut given).await;
    store.unlock_file(&mut raw).await;
    let (_, token, released) = tokio::join!(first, asked, given);
    assert!(token > 0 && released.unwrap());
}

#[tokio::test]
async fn attempt_given_up_in_the_queue_is_not_granted() {
    let store = Store::new();
    let table = store.table_now();
    granted(&table, &claim("first")).await;
    let mut raw = store.lock_file().await;
    let (other, left) = (claim("other"), claim("left"));
    let mut first = pin!(granted(&table, &other));
    poll_once(&mut first).await;
    tokio::task::yield_now().await;
    {
        let mut asked = pin!(table.grant(&left));
        poll_once(&mut asked).await;
    }
    store.unlock_file(&mut raw).await;
    first.await;
    granted(&table, &claim("last")).await;
    assert!(table.look(left.name(), ReadFor::Attempt).await.unwrap().is_none());
}

#[tokio::test]
async fn caller_that_is_not_polled_delays_no_other() {
    let store = Store::new();
    let table = store.table_now();
    granted(&table, &claim("first")).await;
    let unheard = claim("unheard");
    let mut asked = pin!(table.grant(&unheard));
    poll_once(&mut asked).await;
    for name in ["a", "b"] {
        let heard = claim(name);
        let soon = timeout(Duration::from_secs(5), granted(&table, &heard));
        soon.await.unwrap();
    }
    assert!(table.look(unheard.name(), ReadFor::Attempt).await.unwrap().is_some());
    assert!(matches!(asked.await.unwrap(), Granting::Granted(_)));
}

#[test]
fn runtime_that_ends_leaves_its_calls_indeterminate_and_the_store_usable() {
    let store = Store::new();
    let table = store.table_now();
    let (one, other) = (runtime(), runtime());
    one.block_on(granted(&table, &claim("first")));
    let mut raw = other.block_on(store.lock_file());
    // The call begins on the one runtime, and waits for the file there; its caller goes on on the other.
    let asked = claim("a");
    let mut asking = table.grant(&asked);
    one.block_on(poll_once(&mut asking.as_mut()));
    one.shutdown_timeout(Duration::from_secs(5));
    let error = other.block_on(asking).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    other.block_on(store.unlock_file(&mut raw));
    other.block_on(granted(&table, &claim("b")));
}

#[test]
fn runtime_that_ends_fails_all_calls_of_its_batch() {
    let store = Store::new();
    let table = store.table_now();
    let (one, other) = (runtime(), runtime());
    let (started, has_started) = std::sync::mpsc::channel();
    let keep_connection = async move |_slot| {
        started.send(()).unwrap();
        std::future::pending::<()>().await;
    };
    one.block_on(async { table.writer.spawn(keep_connection) }).unwrap();
    has_started.recv().unwrap();
    // The task of the batch is on the runtime of the first call.
    let claims = ["a", "b"].map(claim);
    let mut calls: Vec<_> = claims.iter().map(|claim| table.grant(claim)).collect();
    for (call, runtime) in calls.iter_mut().zip([&one, &other]) {
        runtime.block_on(poll_once(&mut call.as_mut()));
    }
    one.shutdown_timeout(Duration::from_secs(5));
    for call in calls {
        let error = other.block_on(call).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
    }
    other.block_on(granted(&table, &claim("c")));
}

/// The holder of the lease that was renewed waits for the answer.
#[tokio::test]
async fn causes_of_many_losses_delay_a_renewal_by_a_part_of_its_ttl() {
    let store = Store::new();
    let table = store.table_now();
    let ttl = Duration::from_secs(1);
    let claims: Vec<Claim> = (0..8)
        .map(|number| {
            let claim = claim(&format!("n{number}"));
            Claim::new(claim.name().clone(), claim.owner(), ttl, "{}".into())
        })
        .collect();
    granted(&table, &claims[7]).await;
    table.reader.spawn(async move |_slot| std::future::pending().await).unwrap();
    let start = std::time::Instant::now();
    let answers = table.renew(&claims).await;
    // The limit is an eighth of the ttl; the rest is for the disk.
    assert!(start.elapsed() < ttl, "{:?}", start.elapsed());
    let lost = vec![Renewal::Lost(leasehold_core::LossCause::Gone); 7];
    let expected = [lost, vec![Renewal::Renewed]].concat();
    assert_eq!(answers.into_iter().map(|answer| answer.unwrap()).collect::<Vec<_>>(), expected);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// The clock stands still but for the limit, which is over at once: as if the disk did not answer. Each call has the whole time.
#[tokio::test(start_paused = true)]
async fn call_to_a_disk_that_does_not_answer_ends_in_time() {
    let store = Store::new();
    let table = store.table_now();
    let (held, other) = (claim("a"), claim("b"));
    let start = Instant::now();
    let errors = [
        table.grant(&other).await.map(|_| ()).unwrap_err(),
        table.renew(std::slice::from_ref(&held)).await.remove(0).unwrap_err(),
        table.release(&held, Duration::ZERO).await.map(|_| ()).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
        assert_eq!(error.to_string(), "the database did not answer within 18s");
    }
    let error = table.look(held.name(), ReadFor::Attempt).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(start.elapsed(), Duration::from_secs(4 * 18));
}

#[test]
fn call_without_a_runtime_is_misconfigured() {
    let store = Store::new();
    let table = store.table_now();
    let held = claim("a");
    let mut asked = pin!(table.renew(std::slice::from_ref(&held)));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let Poll::Ready(mut answers) = asked.as_mut().poll(&mut cx) else { panic!("pending") };
    let error = answers.remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert_eq!(error.to_string(), "using a store needs a Tokio runtime, and there is none here");
}

#[tokio::test]
async fn free_rows_are_forgotten_and_held_ones_are_kept() {
    let store = Store::new();
    let (table, [free, held]) = (store.table_now(), [claim("free"), claim("held")]);
    for claim in [&free, &held] {
        table.grant(claim).await.unwrap();
    }
    table.release(&free, Duration::ZERO).await.unwrap();
    table.forget(&[free.name().clone(), held.name().clone()]).await.unwrap();
    assert!(table.look(free.name(), ReadFor::Attempt).await.unwrap().is_none());
    assert!(table.look(held.name(), ReadFor::Attempt).await.unwrap().is_some());
}

async fn poll_once<F: Future + ?Sized>(future: &mut Pin<&mut F>) {
    poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}
