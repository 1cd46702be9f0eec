//! The rights of the file and its directory.

use super::refusals::{mode_of, set_mode};
use super::store::{Store, claim, granted};
use super::worker::Worker;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

/// An unprivileged user.
const NOBODY: u32 = 65_534;

#[tokio::test]
async fn file_and_its_side_files_are_for_their_owner_alone() {
    let store = Store::new();
    let backend = store.open();
    granted(&backend, &claim("a")).await;
    for path in [store.file(), store.side_file("-wal"), store.side_file("-shm")] {
        assert_eq!(mode_of(&path), 0o600, "{}", path.display());
    }
}

/// Root may read and write all files, so such a case runs as another user.
#[tokio::test]
async fn umask_takes_no_file_from_its_owner() {
    let store = store_of_the_owner_alone();
    let directory = store.directory().join("leasehold");
    let (file, wrapper) = (directory.join("locks.db"), ["sh", "-c", "umask 0777 && exec \"$@\"", "sh"]);
    let url = format!("sqlite:{}", file.display());
    let answer = ask_unprivileged_under(&wrapper, &store, &url, "try a").await;
    assert_eq!(answer.split(' ').next(), Some("granted"), "{answer}");
    assert_eq!(mode_of(&directory), 0o700);
    assert_eq!(mode_of(&file), 0o600);
    assert_eq!(mode_of(store.directory()), 0o755, "it was there before");
}

#[tokio::test]
async fn file_that_its_group_shares_stays_shared() {
    let store = Store::new();
    std::fs::write(store.file(), "").unwrap();
    set_mode(&store.file(), 0o660);
    let backend = store.open();
    granted(&backend, &claim("a")).await;
    for path in [store.file(), store.side_file("-wal"), store.side_file("-shm")] {
        assert_eq!(mode_of(&path), 0o660, "{}", path.display());
    }
}

#[tokio::test]
async fn file_that_may_not_be_written_is_denied() {
    let store = store_of_the_owner_alone();
    std::fs::write(store.file(), "").unwrap();
    set_mode(&store.file(), 0o444);
    let answer = ask_unprivileged(&store, "try a").await;
    assert_eq!(answer, format!("Denied cannot write to {}", store.file().display()));
}

#[tokio::test]
async fn directory_that_may_not_be_written_is_denied() {
    let store = store_of_the_owner_alone();
    set_mode(store.directory(), 0o555);
    let answer = ask_unprivileged(&store, "try a").await;
    let expected = format!("Denied cannot write to {}", store.directory().display());
    set_mode(store.directory(), 0o755);
    assert_eq!(answer, expected);
    assert!(!store.file().exists());
}

#[tokio::test]
async fn file_of_another_user_in_a_shared_directory_is_refused() {
    if !is_root() {
        return println!("making a file of another user takes root");
    }
    let store = Store::new();
    let directory = store.directory().join("shared");
    std::fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o1777);
    let file = directory.join("locks.db");
    std::fs::write(&file, "").unwrap();
    chown(&file, Some(NOBODY), None).unwrap();
    let backend = super::store::open(&format!("sqlite:{}", file.display())).unwrap();
    let error = backend.try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} belongs to the user {NOBODY}, in a directory where everyone may make files",
            file.display()
        )
    );
    set_mode(&directory, 0o755);
    granted(&backend, &claim("a")).await;
}

/// SQLite deletes the side files when the last process closes the store, and would believe the next that it finds.
#[tokio::test]
async fn side_files_of_another_user_in_a_shared_directory_are_refused() {
    if !is_root() {
        return println!("making a file of another user takes root");
    }
    for suffix in ["-wal", "-shm"] {
        let store = closed_in_a_shared_directory().await;
        let planted = store.side_file(suffix);
        std::fs::write(&planted, "").unwrap();
        set_mode(&planted, 0o666);
        chown(&planted, Some(NOBODY), None).unwrap();
        let problem = format!(
            "Misconfigured {} belongs to the user {NOBODY}, in a directory where everyone may make files",
            planted.display()
        );
        for answer in answers(&store).await {
            assert_eq!(answer, problem);
        }
        assert_eq!(std::fs::metadata(&planted).unwrap().len(), 0);

        chown(&planted, Some(0), None).unwrap();
        granted(&store.open(), &claim("a")).await;
    }
}

#[tokio::test]
async fn link_in_place_of_a_side_file_is_refused_in_a_shared_directory() {
    for suffix in ["-wal", "-shm"] {
        let store = closed_in_a_shared_directory().await;
        let target = store.directory().join("target");
        std::fs::write(&target, "").unwrap();
        symlink(&target, store.side_file(suffix)).unwrap();
        let problem = format!("Misconfigured {} is a symbolic link", store.side_file(suffix).display());
        for answer in answers(&store).await {
            assert_eq!(answer, problem);
        }
        assert_eq!(std::fs::metadata(&target).unwrap().len(), 0);
    }
}

/// A store that was used and closed, where everyone may make files.
async fn closed_in_a_shared_directory() -> Store {
    let store = Store::new();
    set_mode(store.directory(), 0o1777);
    let backend = store.open();
    let mine = claim("before");
    granted(&backend, &mine).await;
    backend.release(&mine, Duration::ZERO).await.unwrap();
    backend.close().await.unwrap();
    // The driver closes the file on a thread of its own.
    let give_up = Instant::now() + Duration::from_secs(60);
    while store.side_file("-wal").exists() || store.side_file("-shm").exists() {
        assert!(Instant::now() < give_up, "the store is still open");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store
}

/// The answers of the store to a writer and to a reader.
async fn answers(store: &Store) -> [String; 2] {
    let backend = store.open();
    let said = |error: leasehold_core::Error| format!("{:?} {error}", error.kind());
    let written = backend.try_acquire(&claim("a")).await.map_or_else(said, |attempt| format!("{attempt:?}"));
    let looked = backend.admin().unwrap().list("").await.map_or_else(said, |locks| format!("{locks:?}"));
    [written, looked]
}

/// A store in a directory that a user without rights can reach and write to.
fn store_of_the_owner_alone() -> Store {
    let store = Store::new();
    set_mode(store.directory(), 0o755);
    if is_root() {
        chown(store.directory(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    store
}

/// The answer of a worker without the rights of root.
async fn ask_unprivileged(store: &Store, question: &str) -> String {
    ask_unprivileged_under(&[], store, &store.url(), question).await
}

/// The same, of a worker that another program starts.
async fn ask_unprivileged_under(wrapper: &[&str], store: &Store, url: &str, question: &str) -> String {
    if !is_root() {
        return Worker::start_under(wrapper, url).ask(question).await;
    }
    // The build directory may be closed to that user.
    let program = tempfile::tempdir().unwrap();
    set_mode(program.path(), 0o755);
    let copy = program.path().join("worker");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let user = NOBODY.to_string();
    let as_nobody = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let mut worker = Worker::start_program(&[wrapper, &as_nobody].concat(), &copy, url);
    if store.file().exists() {
        chown(store.file(), Some(NOBODY), None).unwrap();
    }
    worker.ask(question).await
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt as _;
        own.uid() == 0
    }) && Path::new("/root").exists()
}
