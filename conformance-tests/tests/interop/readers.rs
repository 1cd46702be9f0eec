use crate::exclusion::{PATIENCE, Setup};
use crate::peer::Library;
use leasehold::{AcquireOptions, DistributedLockExt, LockMode, Wait};
use std::sync::Arc;
use std::time::Duration;

/// Longer than a grant takes, and shorter than a test may.
const REFUSED_WITHIN: Duration = Duration::from_millis(500);

pub(crate) fn readers_hold_together(library: Library) {
    let setup = Setup::new(library, LockMode::Shared);
    let mut peer = setup.peer(library);
    assert!(peer.acquire(PATIENCE), "a free lock");
    let ours = setup.acquire(Wait::No).unwrap();
    assert!(setup.acquire_in(LockMode::Write, Wait::No).is_err(), "two readers hold");
    peer.release();
    assert!(setup.acquire_in(LockMode::Write, Wait::No).is_err(), "one reader holds");
    assert!(peer.acquire(PATIENCE), "our reader holds, and so does {library:?}");
    setup.release(ours);
    assert!(setup.acquire_in(LockMode::Write, Wait::No).is_err(), "the reader of {library:?} holds");
    peer.release();
    let writer = setup.acquire_in(LockMode::Write, Wait::No).unwrap();
    setup.release(writer);
}

/// So one path is to be used for one of the two kinds. Ours see both, and each kind sees ours of its own.
pub(crate) fn kinds_of_curator_do_not_see_each_other() {
    let setup = Setup::new(Library::Curator, LockMode::Exclusive);
    let (mut mutex, mut write) = (setup.peer(Library::Curator), setup.peer(Library::CuratorWrite));
    assert!(mutex.acquire(PATIENCE), "a free lock");
    assert!(write.acquire(PATIENCE), "the read-write lock sees the mutex: the guide says that it does not");
    for mode in [LockMode::Exclusive, LockMode::Write, LockMode::Shared] {
        assert!(setup.acquire_in(mode, Wait::No).is_err(), "{mode}: both kinds hold");
    }
    mutex.release();
    assert!(setup.acquire_in(LockMode::Exclusive, Wait::No).is_err(), "the write lock holds");
    assert!(mutex.acquire(PATIENCE), "the mutex sees the read-write lock: the guide says that it does not");
    write.release();
    assert!(setup.acquire_in(LockMode::Shared, Wait::No).is_err(), "the mutex holds");
    mutex.release();
    let ours = setup.acquire_in(LockMode::Write, Wait::No).unwrap();
    assert!(!write.acquire(REFUSED_WITHIN), "our writer holds");
    setup.release(ours);
}

/// kazoo's reader waits for the last writer in the queue, also for one behind it, which waits for the reader.
pub(crate) fn kazoo_reader_and_a_later_writer_wait_for_each_other() {
    let setup = Setup::new(Library::KazooRead, LockMode::Write);
    let mut reader = setup.peer(Library::KazooRead);
    let first = setup.acquire(Wait::No).unwrap();
    reader.begin_acquire(Duration::from_secs(3));
    std::thread::sleep(Duration::from_millis(500));
    let later = setup.runtime.spawn({
        let (locks, job) = (Arc::clone(&setup.locks), setup.job.clone());
        let options = AcquireOptions::new().with_mode(LockMode::Write).with_wait(PATIENCE);
        async move { locks.acquire_with(&job, &options).await }
    });
    std::thread::sleep(Duration::from_millis(500));
    setup.release(first);
    assert!(
        !reader.acquired(),
        "kazoo's reader passes the writer behind it: the guide says that it does not"
    );
    let later = setup.runtime.block_on(later).unwrap().unwrap();
    setup.release(later);
}
