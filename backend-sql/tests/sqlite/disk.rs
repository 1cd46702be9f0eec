//! A disk that is full, one that fails, one that is not of this host, and a file that is a mount point.

use super::store::{Store, claim, granted};
use super::worker::Worker;
use leasehold_core::ErrorKind;
use leasehold_test_stores::servers::{SharedFolder, shared_folder_missing};

/// Runs a worker on a file system of 128 KiB that nobody else sees.
const SMALL_DISK: &str = "mount -t tmpfs -o size=128k,mode=700 small \"$STORE\"; exec \"$0\" \"$@\"";

#[tokio::test]
async fn full_disk_is_unavailable_and_grants_nothing() {
    let store = Store::new();
    let directory = store.directory().display();
    let mount = SMALL_DISK.replace("$STORE", &directory.to_string());
    let mut worker = Worker::start_under(&["unshare", "-U", "-r", "-m", "bash", "-c", &mount], &store.url());
    assert!(worker.ask("try first").await.starts_with("granted"));
    assert_eq!(worker.ask(&format!("fill {directory}/ballast")).await, "full");

    let full = format!("Unavailable the disk under {} is full", store.file().display());
    for _ in 0..3 {
        assert_eq!(worker.ask("try a").await, full);
    }
    assert!(worker.ask("try first").await.starts_with("busy"));

    assert_eq!(worker.ask(&format!("remove {directory}/ballast")).await, "removed");
    assert!(worker.ask("try a").await.starts_with("granted"));
}

/// Where the first file cannot be made, nor a side file, nor a page of one.
#[tokio::test]
async fn first_use_on_a_full_file_system_is_unavailable() {
    let cases = [
        ("nr_inodes=1", "true", "cannot make {}"),
        ("nr_inodes=2", "true", "SQLite cannot open or write {}"),
        ("nr_inodes=3", "true", "SQLite cannot open or write {}"),
        ("size=64k", "head -c 64K /dev/zero > $STORE/ballast", "the disk under {} is full"),
    ];
    for (options, prepare, expected) in cases {
        let store = Store::new();
        let mount =
            format!("mount -t tmpfs -o {options},mode=700 small $STORE; {prepare}; exec \"$0\" \"$@\"");
        let mount = mount.replace("$STORE", &store.directory().display().to_string());
        let wrapper = ["unshare", "-U", "-r", "-m", "bash", "-c", &mount];
        let answer = Worker::start_under(&wrapper, &store.url()).ask("try a").await;
        let expected = expected.replace("{}", &store.file().display().to_string());
        assert_eq!(answer, format!("Unavailable {expected}"), "{options}");
    }
}

/// As `docker run -v /srv/locks.db:/data/locks.db` does it: one file, and two pairs of side files.
#[tokio::test]
async fn file_that_is_a_mount_point_is_refused() {
    let (outside, inside) = (Store::new(), Store::new());
    let backend = outside.open();
    granted(&backend, &claim("a")).await;
    let (source, target) = (outside.file(), inside.file());
    let (source, target) = (source.display(), target.display());
    let mount = format!("touch {target}; mount --bind {source} {target}; exec \"$0\" \"$@\"");
    let mut worker = Worker::start_under(&["unshare", "-U", "-r", "-m", "bash", "-c", &mount], &inside.url());
    let refused = format!("Misconfigured {target} is a mount point");
    assert_eq!(worker.ask("try a").await, refused);
    for suffix in ["-wal", "-shm"] {
        assert!(!inside.side_file(suffix).exists());
    }
    granted(&backend, &claim("b")).await;
}

/// The shell's limit of a file's length makes a write fail in another way than for want of room.
#[tokio::test]
async fn failing_disk_is_indeterminate_and_grants_nothing() {
    let store = Store::new();
    let backend = store.open();
    granted(&backend, &claim("first")).await;
    let log = std::fs::metadata(store.side_file("-wal")).unwrap().len();
    // The signal is ignored, so that the write fails instead of ending the process.
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", log.div_ceil(1024));
    let mut worker = Worker::start_under(&["bash", "-c", &limited], &store.url());
    let answer = worker.ask("try a").await;
    let failed = format!("Indeterminate the disk under {} failed", store.file().display());
    assert_eq!(answer, failed);
    assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 1);
    granted(&backend, &claim("a")).await;
}

/// Where the cell of the matrix only sees that nothing worse than promised came of it.
#[tokio::test]
async fn file_on_a_network_file_system_is_refused_and_not_made() {
    if let Some(why) = shared_folder_missing() {
        return println!("not run: {why}");
    }
    let store = Store::new();
    let shared = SharedFolder::of(store.directory()).unwrap();
    let file = shared.path().join("locks.db");
    let backend = super::store::open(&format!("sqlite:{}", file.display())).unwrap();
    let error = backend.try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("is on FUSE, a network file system"), "{error}");
    assert!(error.help().is_some_and(|help| help.contains("allow_network_fs=yes")));
    assert_eq!(std::fs::read_dir(store.directory()).unwrap().count(), 0);
}
