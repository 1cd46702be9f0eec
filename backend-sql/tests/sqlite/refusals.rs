//! Refused paths, and the errors. A refused path is left as it was.

use super::store::{Store, claim, open};
use leasehold_core::{Error, ErrorKind, LockBackend};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

fn refused_url(url: &str) -> (String, String) {
    let error = open(url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
    (error.to_string(), error.help().unwrap_or_default().to_owned())
}

#[test]
fn urls_that_name_no_file_are_refused_before_any_is_touched() {
    let write_it = "write it like sqlite:/path/to/locks.db";
    let one_slash = "write sqlite:/path, or sqlite:./path";
    let whole = "write the whole path; or begin with ./ if a directory has that name";
    let cases = [
        ("sqlite:", "invalid store URL: it names no file", write_it),
        ("sqlite://", "invalid store URL: it names no file", write_it),
        ("sqlite:?table=x", "invalid store URL: it names no file", write_it),
        (
            "sqlite::memory:",
            "invalid store URL: a database in memory would lock nobody out",
            "name a file, or use memory:",
        ),
        ("sqlite:/tmp/dir/", "invalid store URL: its path is a directory", "name a file in it"),
        ("sqlite:a%00b", "invalid store URL: its path has a control character", "take it out"),
        ("sqlite://rel.db", "invalid store URL: it has two slashes where a path begins", one_slash),
        ("sqlite://srv/a:b@c.db", "invalid store URL: it has two slashes where a path begins", one_slash),
        ("sqlite://%2Fsrv/l.db", "invalid store URL: it has two slashes where a path begins", one_slash),
        ("sqlite:~/l.db", "invalid store URL: its path begins with a ~ that nothing here replaces", whole),
        ("sqlite:$X/l.db", "invalid store URL: its path begins with a $ that nothing here replaces", whole),
        ("sqlite:${X}/l.db", "invalid store URL: its path begins with a $ that nothing here replaces", whole),
        (
            "sqlite://ada:S3CR3T@host/locks.db",
            "invalid store URL: it has a user or a password, and a file has none",
            write_it,
        ),
    ];
    for (url, problem, fix) in cases {
        assert_eq!(refused_url(url), (problem.to_owned(), fix.to_owned()));
    }
}

#[test]
fn parameters_out_of_range_are_refused_with_the_range() {
    let with = |parameters: &str| refused_url(&format!("sqlite:/tmp/x.db?{parameters}"));
    let name_rule = "begin it with a letter or _, go on with letters, digits and _, 63 in all at most";
    let long = "t".repeat(64);
    for table in ["", "1x", "a-b", "x; DROP TABLE y", "tab elle", "täble", "a.b", &long] {
        let (problem, fix) = with(&format!("table={table}"));
        assert_eq!(problem, format!("invalid table: {table:?}"));
        assert_eq!(fix, name_rule);
    }
    let of_sqlite = "name it otherwise: SQLite keeps such names";
    assert_eq!(with("table=SQLite_stat1"), ("invalid table: SQLite_stat1".to_owned(), of_sqlite.to_owned()));
    assert_eq!(
        with("busy_timeout=2"),
        ("invalid busy_timeout: \"2\" has no unit".to_owned(), "write 2s or 2ms".to_owned())
    );
    assert_eq!(
        with("busy_timeout=1ms"),
        ("invalid busy_timeout: 1ms, at least 10ms".to_owned(), "lengthen it".to_owned())
    );
    assert_eq!(
        with("busy_timeout=61s"),
        ("invalid busy_timeout: 61s, at most 60s".to_owned(), "shorten it".to_owned())
    );
    assert_eq!(
        with("allow_network_fs=1"),
        ("invalid allow_network_fs: \"1\"".to_owned(), "use one of: yes, no".to_owned())
    );
    let (problem, fix) = with("busytimeout=2s");
    assert_eq!(problem, "invalid store URL: unknown parameter \"busytimeout\"");
    let known = fix.strip_prefix("did you mean \"busy_timeout\"? known: ").unwrap();
    for parameter in ["allow_network_fs", "busy_timeout", "table"] {
        assert!(known.split(", ").any(|known| known == parameter), "{parameter}: {fix}");
    }
}

#[test]
fn scheme_of_another_store_is_refused() {
    let error = open("redis://h").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert_eq!(error.to_string(), "\"redis\" is no scheme of a SQL database");
    assert!(leasehold_sql::SCHEMES.contains(&"sqlite"));
    assert_eq!(error.help(), Some(&*format!("use one of: {}", leasehold_sql::SCHEMES.join(", "))));
}

/// The errors of a store at this path, for a writer and for a reader.
async fn refusals(path: &Path) -> [Error; 2] {
    let backend: Arc<dyn LockBackend> = open(&format!("sqlite:{}", path.display())).unwrap();
    let written = backend.try_acquire(&claim("a")).await.unwrap_err();
    let looked = backend.admin().unwrap().list("").await.unwrap_err();
    [written, looked]
}

async fn assert_refused(path: &Path, problem: &str, fix: &str) {
    for error in refusals(path).await {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert_eq!(error.to_string(), problem);
        assert_eq!(error.help(), Some(fix));
    }
}

#[tokio::test]
async fn directory_in_place_of_the_file_is_refused() {
    let store = Store::new();
    std::fs::create_dir(store.file()).unwrap();
    let problem = format!("{} is not a regular file", store.file().display());
    assert_refused(&store.file(), &problem, "name another one").await;
}

#[tokio::test]
async fn symbolic_link_is_refused_wherever_it_leads() {
    for there in [true, false] {
        let store = Store::new();
        let target = store.directory().join("target.db");
        if there {
            std::fs::write(&target, "").unwrap();
        }
        symlink(&target, store.file()).unwrap();
        assert_refused(
            &store.file(),
            &format!("{} is a symbolic link", store.file().display()),
            "name the file itself: a link that is turned elsewhere splits the locks in two",
        )
        .await;
        assert_eq!(target.exists(), there);
    }
}

#[tokio::test]
async fn file_with_two_names_is_refused() {
    let store = Store::new();
    std::fs::write(store.file(), "").unwrap();
    std::fs::hard_link(store.file(), store.directory().join("twin.db")).unwrap();
    assert_refused(
        &store.file(),
        &format!("{} has 2 names (hard links)", store.file().display()),
        "keep one: under each name it would have side files of its own, which damages the database",
    )
    .await;
}

#[tokio::test]
async fn path_to_no_regular_file_is_refused() {
    let store = Store::new();
    let _listening = std::os::unix::net::UnixListener::bind(store.file()).unwrap();
    let problem = format!("{} is not a regular file", store.file().display());
    assert_refused(&store.file(), &problem, "name another one").await;
}

#[tokio::test]
async fn missing_directory_is_refused_and_not_made() {
    let store = Store::new();
    let directory = store.directory().join("typo");
    let problem = format!("the directory {} does not exist", directory.display());
    let fix = format!("make it, for instance with: mkdir -p -m 700 {}", directory.display());
    assert_refused(&directory.join("locks.db"), &problem, &fix).await;
    assert!(!directory.exists());
}

#[tokio::test]
async fn directory_named_leasehold_is_made_for_its_owner_alone() {
    let store = Store::new();
    let directory = store.directory().join("leasehold");
    let backend = open(&format!("sqlite:{}/locks.db", directory.display())).unwrap();
    assert!(backend.admin().unwrap().list("").await.unwrap().is_empty());
    assert!(!directory.exists(), "who looks makes nothing");
    super::store::granted(&backend, &claim("a")).await;
    assert_eq!(mode_of(&directory), 0o700);
}

/// The path is more likely mistyped than meant.
#[tokio::test]
async fn directory_named_leasehold_in_a_missing_one_is_not_made() {
    let store = Store::new();
    let parent = store.directory().join("typo");
    let problem = format!("the directory {} does not exist", parent.display());
    let fix = format!("make it, for instance with: mkdir -p -m 700 {}", parent.display());
    assert_refused(&parent.join("leasehold/locks.db"), &problem, &fix).await;
    assert!(!parent.exists());
}

#[tokio::test]
async fn file_in_place_of_a_directory_is_refused() {
    let store = Store::new();
    std::fs::write(store.directory().join("file"), "").unwrap();
    for error in refusals(&store.directory().join("file/locks.db")).await {
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        let problem = format!("{}/file is not a directory", store.directory().display());
        assert_eq!(error.to_string(), problem);
    }
    for error in refusals(&store.directory().join("file/deeper/locks.db")).await {
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        let problem = format!("cannot look at {}/file/deeper", store.directory().display());
        assert_eq!(error.to_string(), problem);
        assert_eq!(error.help(), Some("correct the path"));
    }
}

#[tokio::test]
async fn directory_in_which_everyone_may_replace_files_is_refused() {
    let store = Store::new();
    let directory = store.directory().join("open");
    std::fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o777);
    let problem = format!("everyone may replace files in the directory {}", directory.display());
    let fix = format!("take that right away with: chmod o-w {}", directory.display());
    assert_refused(&directory.join("locks.db"), &problem, &fix).await;
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);

    // No directory of ours is made in it either.
    assert_refused(&directory.join("leasehold/locks.db"), &problem, &fix).await;
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);

    // As in /tmp: everyone may make files, and only their owners may replace them.
    set_mode(&directory, 0o1777);
    let backend = open(&format!("sqlite:{}/locks.db", directory.display())).unwrap();
    super::store::granted(&backend, &claim("a")).await;
}

#[tokio::test]
async fn directory_that_stays_locked_is_unavailable_in_time() {
    let store = Store::new();
    let directory = std::fs::File::open(store.directory()).unwrap();
    directory.lock().unwrap();
    let backend = store.open();
    let error = backend.try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let problem = format!("cannot lock {}", store.directory().display());
    assert_eq!(error.to_string(), problem);
    directory.unlock().unwrap();
    super::store::granted(&backend, &claim("a")).await;
}

#[tokio::test]
async fn file_that_is_no_database_is_refused_and_unchanged() {
    for content in ["not a database", &"x".repeat(100_000)] {
        let store = Store::new();
        std::fs::write(store.file(), content).unwrap();
        let problem = format!("{} is not a SQLite database", store.file().display());
        assert_refused(&store.file(), &problem, "name another file; this one was left as it is").await;
        assert_eq!(std::fs::read_to_string(store.file()).unwrap(), content);
    }
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub(super) fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}
