//! The operator's side.

use super::store::{Store, TTL, busy_for, claim, granted, is_about, open};
use super::worker::Worker;
use leasehold_core::{ErrorKind, FencingToken, LossCause, Purge, Renewal, Severity};
use std::path::Path;
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn read_of_a_missing_store_creates_none() {
    let store = Store::new();
    let backend = store.open();
    let admin = backend.admin().unwrap();
    assert!(admin.inspect(claim("a").name()).await.unwrap().is_empty());
    assert!(admin.list("").await.unwrap().is_empty());
    assert!(admin.waiters(claim("a").name()).await.unwrap().is_empty());
    assert!(admin.force_release(claim("a").name(), None).await.unwrap().is_empty());
    let found = admin.check().await.unwrap();
    assert_eq!((found.len(), found[0].code), (1, "I_NEW"));
    assert_eq!(admin.purge(HOUR, Purge::Delete).await.unwrap(), Some(0));
    assert!(!store.file().exists());
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn purge_deletes_idle_names_and_no_others() {
    let store = Store::new();
    let backend = store.open();
    let admin = backend.admin().unwrap();
    let (old, fresh, held) = (claim("old"), claim("fresh"), claim("held"));
    let token = granted(&backend, &old).await;
    for claim in [&fresh, &held] {
        granted(&backend, claim).await;
    }
    for claim in [&old, &fresh] {
        backend.release(claim, Duration::ZERO).await.unwrap();
    }
    // Two hours older than they are.
    store.sql("UPDATE leasehold SET token = token - 7200000000 WHERE name <> CAST('fresh' AS BLOB)").await;
    assert_eq!(admin.purge(HOUR, Purge::Count).await.unwrap(), Some(1));
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 3);
    assert_eq!(admin.purge(HOUR, Purge::Delete).await.unwrap(), Some(1));
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 2);
    assert!(granted(&backend, &claim("old")).await > token);
    busy_for(&backend, &claim("held")).await;
}

/// Many more than are looked at in one statement, of which every third was used lately.
#[tokio::test]
async fn purge_of_many_names_deletes_all_idle_ones_and_no_others() {
    let store = Store::new();
    let backend = store.open();
    let admin = backend.admin().unwrap();
    for claim in ["first", "z"].map(claim) {
        granted(&backend, &claim).await;
        backend.release(&claim, Duration::ZERO).await.unwrap();
    }
    store
        .sql(
            "WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < 2999)
            INSERT INTO leasehold
            SELECT CAST(printf('job/%04d', i) AS BLOB), owner, token - iif(i % 3 = 0, 0, 7200000000), ends_at,
                linger_until, written_at, boot, acquired_at, holder, sharers
            FROM leasehold, numbers WHERE name = CAST('first' AS BLOB)",
        )
        .await;
    assert_eq!(admin.purge(HOUR, Purge::Count).await.unwrap(), Some(2000));
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 3002);
    assert_eq!(admin.purge(HOUR, Purge::Delete).await.unwrap(), Some(2000));
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 1002);
    let old = "SELECT count(*) FROM leasehold WHERE token < (SELECT max(token) FROM leasehold) - 3600000000";
    assert_eq!(store.number(old).await, 0);
    assert_eq!(admin.purge(HOUR, Purge::Delete).await.unwrap(), Some(0));
}

#[tokio::test]
async fn foreign_row_is_refused_by_name_and_hides_no_other() {
    let store = Store::new();
    let backend = store.open();
    let admin = backend.admin().unwrap();
    granted(&backend, &claim("held")).await;
    granted(&backend, &claim("bad")).await;
    store.sql("UPDATE leasehold SET owner = x'0011' WHERE name = CAST('bad' AS BLOB)").await;
    let listed = admin.list("").await.unwrap();
    assert!(listed.len() == 1 && listed[0].name == *claim("held").name(), "{listed:?}");
    let error = admin.inspect(claim("bad").name()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().starts_with("the row of \"bad\" in "), "{error}");
    assert!(error.help().unwrap().contains("delete it"));
    assert_eq!(backend.try_acquire(&claim("bad")).await.unwrap_err().kind(), ErrorKind::Misconfigured);
}

#[tokio::test]
async fn held_lock_is_shown_with_owner_token_holder_and_times() {
    let store = Store::new();
    let backend = store.open();
    let held = claim("a");
    let before = SystemTime::now();
    let token = granted(&backend, &held).await;
    let shown = backend.admin().unwrap().inspect(held.name()).await.unwrap();
    let shown = &shown[0];
    assert_eq!(shown.name, *held.name());
    assert_eq!(shown.owner, Some(held.owner()));
    assert_eq!(shown.token, Some(token));
    assert_eq!((shown.holder.user.as_str(), shown.holder.pid), ("ada", 7));
    assert!(is_about(shown.ends_in.unwrap(), TTL));
    let since = shown.acquired_at.unwrap();
    assert!(since + Duration::from_millis(1) >= before && since <= SystemTime::now());

    backend.release(&held, Duration::ZERO).await.unwrap();
    let shown = backend.admin().unwrap().inspect(held.name()).await.unwrap();
    assert!(shown.is_empty());
}

#[tokio::test]
async fn force_released_lock_is_granted_next_with_a_larger_token() {
    let store = Store::new();
    let backend = store.open();
    let admin = backend.admin().unwrap();
    let held = claim("a");
    let token = granted(&backend, &held).await;
    let broken = admin.force_release(held.name(), None).await.unwrap().remove(0);
    assert_eq!((broken.owner, broken.token), (Some(held.owner()), Some(token)));
    let lost = backend.renew(&[held]).await.remove(0).unwrap();
    assert_eq!(lost, Renewal::Lost(LossCause::Gone));
    assert!(granted(&backend, &claim("a")).await > token);
}

#[tokio::test]
async fn forced_release_with_the_token_of_another_grant_frees_nothing() {
    let store = Store::new();
    let backend = store.open();
    let admin = backend.admin().unwrap();
    let held = claim("a");
    let token = granted(&backend, &held).await;
    let other = FencingToken::new(token.get() + 1);
    let broken = admin.force_release(held.name(), Some(other)).await.unwrap();
    assert!(broken.is_empty());
    busy_for(&backend, &claim("a")).await;
    let broken = admin.force_release(held.name(), Some(token)).await.unwrap();
    assert!(!broken.is_empty());
    granted(&backend, &claim("a")).await;
}

#[tokio::test]
async fn forced_release_ends_a_linger_and_finds_nothing_on_a_free_name() {
    let store = Store::new();
    let backend = store.open();
    let admin = backend.admin().unwrap();
    let held = claim("a");
    granted(&backend, &held).await;
    backend.release(&held, TTL).await.unwrap();
    let broken = admin.force_release(held.name(), None).await.unwrap().remove(0);
    assert_eq!(broken.owner, None);
    assert!(admin.force_release(held.name(), None).await.unwrap().is_empty());
    granted(&backend, &claim("a")).await;
}

#[tokio::test]
async fn check_of_a_sound_store_finds_nothing() {
    let store = Store::new();
    let backend = store.open();
    granted(&backend, &claim("a")).await;
    assert_eq!(backend.admin().unwrap().check().await.unwrap(), []);
}

#[tokio::test]
async fn check_reports_a_file_mode_that_others_can_use() {
    let cases = [
        (0o666, Severity::Error, "0666: everyone may free every lock"),
        (0o660, Severity::Info, "0660: its group may free every lock"),
        (0o644, Severity::Info, "0644: others may see who holds what"),
    ];
    for (mode, severity, expected) in cases {
        let store = Store::new();
        let backend = store.open();
        granted(&backend, &claim("a")).await;
        super::refusals::set_mode(&store.file(), mode);
        let found = backend.admin().unwrap().check().await.unwrap();
        assert_eq!(found.len(), 1);
        let code = if severity == Severity::Error { "E_FILE_MODE" } else { "I_FILE_MODE" };
        assert_eq!((found[0].severity, found[0].code), (severity, code));
        assert!(found[0].message.ends_with(expected), "{}", found[0].message);
    }
}

#[tokio::test]
async fn check_reports_a_shared_directory() {
    let cases = [
        (0o1777, Severity::Warning, "clean-up jobs delete old ones"),
        (0o770, Severity::Info, "its group may replace the file"),
    ];
    for (mode, severity, expected) in cases {
        let store = Store::new();
        let backend = store.open();
        granted(&backend, &claim("a")).await;
        super::refusals::set_mode(store.directory(), mode);
        let found = backend.admin().unwrap().check().await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].severity, found[0].code), (severity, "W_DIRECTORY"));
        assert!(found[0].message.ends_with(expected), "{}", found[0].message);
    }
}

#[tokio::test]
async fn check_reports_a_journal_that_is_no_log() {
    let store = Store::new();
    std::fs::write(store.file(), "").unwrap();
    super::refusals::set_mode(&store.file(), 0o600);
    let script = store.open().admin().unwrap().init_script().unwrap();
    let (_, create) = script.split_once("\n\n").unwrap();
    store.sql(create).await;
    let backend = store.open();
    let found = backend.admin().unwrap().check().await.unwrap();
    assert_eq!((found.len(), found[0].code), (1, "W_JOURNAL"));
    assert_eq!(found[0].severity, Severity::Warning);
    granted(&backend, &claim("a")).await;
    assert_eq!(store.open().admin().unwrap().check().await.unwrap(), []);
}

/// Two mounts of one lower layer give the file to two processes, each of which has a copy of its own.
#[tokio::test]
async fn check_reports_a_file_in_layers() {
    let store = Store::new();
    let (lower, mounted) = (store.directory().join("lower"), store.directory().join("mounted"));
    let file = |directory: &Path| format!("sqlite:{}", directory.join("locks.db").display());
    std::fs::create_dir(&lower).unwrap();
    granted(&open(&file(&lower)).unwrap(), &claim("other")).await;
    let mut workers = Vec::new();
    for mount in ["one", "two"] {
        let layers = store.directory().join(mount);
        let (upper, work) = (layers.join("upper"), layers.join("work"));
        for directory in [&upper, &work, &mounted] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let options =
            format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        let mount = format!("mount -t overlay overlay -o {options} {} && exec \"$@\"", mounted.display());
        let mut worker = Worker::start_under(&["unshare", "-rm", "sh", "-c", &mount, "sh"], &file(&mounted));
        assert_eq!(worker.ask("check").await, "W_LAYERED_FS");
        workers.push(worker);
    }
    for worker in &mut workers {
        let answer = worker.ask("try a").await;
        assert!(answer.starts_with("granted"), "what the finding warns of: {answer}");
    }
}
