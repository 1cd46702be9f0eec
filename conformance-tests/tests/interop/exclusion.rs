use crate::peer::{Library, Peer};
use leasehold::{AcquireOptions, DistributedLock, DistributedLockExt, LockGuard, LockMode, LockName, Wait};
use leasehold_test_stores::servers::{RedisServer, ZooKeeperServer};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Longer than every bound that matters here: sessions last a second, leases of redis-py two.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(4);

/// A server, our locks on it, and the path or key by which the others know the lock `job`.
pub(crate) struct Setup {
    _server: Box<dyn Any + Sync>,
    address: String,
    path: &'static str,
    pub(crate) runtime: Runtime,
    pub(crate) locks: Arc<dyn DistributedLock>,
    options: AcquireOptions,
    pub(crate) job: LockName,
}

impl Setup {
    pub(crate) fn new(library: Library, mode: LockMode) -> Self {
        let (server, address, path, url): (Box<dyn Any + Sync>, _, _, _) = if library == Library::RedisPy {
            let server = RedisServer::start().unwrap();
            let url = server.url();
            (Box::new(server), url.clone(), "leasehold:job", url)
        } else {
            let server = ZooKeeperServer::start().unwrap();
            let url = format!("{}/locks?session_timeout=1s", server.url());
            let address = server.address();
            (Box::new(server), address, "/locks/job", url)
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let locks = runtime.block_on(leasehold::connect(&url)).unwrap();
        let (options, job) = (AcquireOptions::new().with_mode(mode), LockName::new("job").unwrap());
        Self { _server: server, address, path, runtime, locks, options, job }
    }

    pub(crate) fn peer(&self, library: Library) -> Peer {
        Peer::start(library, &self.address, self.path)
    }

    pub(crate) fn acquire(&self, wait: impl Into<Wait>) -> leasehold::Result<LockGuard> {
        self.acquire_in(self.options.mode(), wait)
    }

    pub(crate) fn acquire_in(&self, mode: LockMode, wait: impl Into<Wait>) -> leasehold::Result<LockGuard> {
        let options = self.options.clone().with_mode(mode).with_wait(wait);
        self.runtime.block_on(self.locks.acquire_with(&self.job, &options))
    }

    pub(crate) fn release(&self, guard: LockGuard) {
        self.runtime.block_on(guard.release()).unwrap();
    }
}

/// Our holds are of this mode. Two readers hold together, and the peer waits for both.
pub(crate) fn holds_exclude_and_wake_both_ways(library: Library, mode: LockMode) {
    let setup = Setup::new(library, mode);
    let mut peer = setup.peer(library);

    assert!(peer.acquire(PATIENCE), "a free lock");
    assert!(setup.acquire(Wait::No).is_err(), "{library:?} holds, and so do we");
    let waiter = setup.runtime.spawn({
        let (locks, job, options) =
            (Arc::clone(&setup.locks), setup.job.clone(), setup.options.clone().with_wait(Wait::Forever));
        async move { locks.acquire_with(&job, &options).await }
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waiter.is_finished(), "{library:?} holds, and so do we");
    let released = Instant::now();
    peer.release();
    let guard = setup.runtime.block_on(waiter).unwrap().unwrap();
    assert!(
        released.elapsed() < SOON,
        "{library:?} released, and we heard of it {:?} later",
        released.elapsed()
    );

    if mode.is_shared() {
        let second = setup.acquire(Wait::No).unwrap();
        assert!(!peer.acquire(Duration::from_millis(300)), "two readers hold, and so does {library:?}");
        setup.release(second);
    }
    assert!(!peer.acquire(Duration::from_millis(300)), "we hold, and so does {library:?}");
    peer.begin_acquire(PATIENCE);
    std::thread::sleep(Duration::from_millis(300));
    assert!(guard.is_held(), "lost to a waiter: {:?}", guard.loss());
    let first = guard.token().unwrap();
    setup.release(guard);
    assert!(peer.acquired(), "we released, and {library:?} never got it");

    assert!(setup.acquire(Duration::from_millis(300)).is_err(), "{library:?} holds, and so do we");
    peer.kill();
    let guard = setup.acquire(SOON).unwrap();
    let second = guard.token().unwrap();
    assert!(second > first, "token {second} after {first}, with a hold of {library:?} between");
    setup.release(guard);
}

/// Each reads a number, and writes the next one, under the lock: any overlap of two holders loses a count.
pub(crate) fn counters_lose_no_count() {
    const TIMES: usize = 20;
    let setup = Setup::new(Library::Curator, LockMode::Exclusive);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("count");
    std::fs::write(&file, "0").unwrap();
    std::thread::scope(|scope| {
        for library in [Library::Curator, Library::Kazoo] {
            let (setup, file) = (&setup, &file);
            scope.spawn(move || {
                let mut peer = setup.peer(library);
                for _ in 0..TIMES {
                    assert!(peer.acquire(PATIENCE), "{library:?} waits in vain");
                    count(file);
                    peer.release();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    let guard = setup.acquire(PATIENCE).unwrap();
                    count(&file);
                    setup.release(guard);
                }
            });
        }
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), (4 * TIMES).to_string());
}

fn count(file: &Path) {
    let before: usize = std::fs::read_to_string(file).unwrap().parse().unwrap();
    std::thread::sleep(Duration::from_millis(1));
    std::fs::write(file, (before + 1).to_string()).unwrap();
}
