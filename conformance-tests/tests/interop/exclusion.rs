use crate::peer::{Library, Peer};
use leasehold::{AcquireOptions, DistributedLock, DistributedLockExt, LockName, Wait};
use leasehold_conformance::servers::ZooKeeperServer;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Beyond every bound that matters here: sessions last a second.
const PATIENCE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(4);

/// A server, our locks in its `/locks`, and the path that the others know the lock `job` by.
struct Stage {
    server: ZooKeeperServer,
    runtime: Runtime,
    locks: Arc<dyn DistributedLock>,
    job: LockName,
}

impl Stage {
    fn new() -> Self {
        let server = ZooKeeperServer::start().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let url = format!("{}/locks?session_timeout=1s", server.url());
        let locks = runtime.block_on(leasehold::connect(&url)).unwrap();
        Self { server, runtime, locks, job: LockName::new("job").unwrap() }
    }

    fn peer(&self, library: Library) -> Peer {
        Peer::start(library, &self.server.address(), "/locks/job")
    }

    fn acquire(&self, wait: Duration) -> leasehold::Result<leasehold::LockGuard> {
        let options = AcquireOptions::new().with_wait(wait);
        self.runtime.block_on(self.locks.acquire_with(&self.job, &options))
    }
}

pub(crate) fn excludes_and_wakes_both_ways(library: Library) {
    let stage = Stage::new();
    let mut peer = stage.peer(library);

    assert!(peer.acquire(PATIENCE), "a free lock");
    let refused = stage.runtime.block_on(stage.locks.try_acquire("job")).unwrap();
    assert!(refused.is_none(), "{library:?} holds, and so do we");
    let waiter = stage.runtime.spawn({
        let (locks, job) = (Arc::clone(&stage.locks), stage.job.clone());
        async move { locks.acquire_with(&job, &AcquireOptions::new().with_wait(Wait::Forever)).await }
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waiter.is_finished(), "{library:?} holds, and so do we");
    let released = Instant::now();
    peer.release();
    let guard = stage.runtime.block_on(waiter).unwrap().unwrap();
    assert!(
        released.elapsed() < SOON,
        "{library:?} released, and we heard of it {:?} later",
        released.elapsed()
    );

    assert!(!peer.acquire(Duration::from_millis(300)), "we hold, and so does {library:?}");
    peer.begin_acquire(PATIENCE);
    std::thread::sleep(Duration::from_millis(300));
    assert!(guard.is_held(), "lost to a waiter: {:?}", guard.loss());
    let first = guard.token().unwrap();
    stage.runtime.block_on(guard.release()).unwrap();
    assert!(peer.acquired(), "we released, and {library:?} never got it");

    assert!(stage.acquire(Duration::from_millis(300)).is_err(), "{library:?} holds, and so do we");
    peer.kill();
    let guard = stage.acquire(SOON).unwrap();
    let second = guard.token().unwrap();
    assert!(second > first, "token {second} after {first}, with a hold of {library:?} between");
    stage.runtime.block_on(guard.release()).unwrap();
}

/// Each reads a number, and writes the next one, under the lock: any overlap of two holders loses a count.
pub(crate) fn count_together() {
    const TIMES: usize = 20;
    let stage = Stage::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("count");
    std::fs::write(&file, "0").unwrap();
    std::thread::scope(|scope| {
        for library in [Library::Curator, Library::Kazoo] {
            let (stage, file) = (&stage, &file);
            scope.spawn(move || {
                let mut peer = stage.peer(library);
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
                    let guard = stage.acquire(PATIENCE).unwrap();
                    count(&file);
                    stage.runtime.block_on(guard.release()).unwrap();
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
