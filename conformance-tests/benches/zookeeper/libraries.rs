use crate::curator::curator;
use crate::{Figures, MEASURED_FOR, WARM_UP};
use leasehold::{AcquireOptions, DistributedLockExt, LockName, Wait};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zookeeper_client::{Acls, Client, LockOptions, LockPrefix};

/// Servers, path of the lock, players, and how to count packets since the last time: what was measured, and the
/// packets meanwhile.
type Run = fn(&str, &str, usize, &mut dyn FnMut() -> u64) -> (Figures, u64);

pub(crate) const LIBRARIES: [(&str, Run); 3] =
    [("leasehold", leasehold), ("zookeeper-client", zookeeper_client), ("curator", curator)];

fn leasehold(servers: &str, path: &str, players: usize, packets: &mut dyn FnMut() -> u64) -> (Figures, u64) {
    measure(packets, async |game: Arc<Game>| {
        let locks = ::leasehold::connect(&format!("zk://{servers}{path}")).await.unwrap();
        let name = LockName::new("job").unwrap();
        let options = AcquireOptions::new().with_wait(Wait::Forever);
        for _ in 0..players {
            let (game, locks, name, options) =
                (Arc::clone(&game), Arc::clone(&locks), name.clone(), options.clone());
            tokio::spawn(async move {
                loop {
                    let guard = locks.acquire_with(&name, &options).await.unwrap();
                    game.handed_over();
                    guard.release().await.unwrap();
                }
            });
        }
    })
}

fn zookeeper_client(
    servers: &str,
    path: &str,
    players: usize,
    packets: &mut dyn FnMut() -> u64,
) -> (Figures, u64) {
    measure(packets, async |game: Arc<Game>| {
        let client = Client::connector().connect(servers).await.unwrap();
        let options = zookeeper_client::CreateMode::Persistent.with_acls(Acls::anyone_all());
        client.mkdir(path, &options).await.unwrap();
        let path: Arc<str> = path.into();
        for _ in 0..players {
            let (game, client, path) = (Arc::clone(&game), client.clone(), Arc::clone(&path));
            tokio::spawn(async move {
                loop {
                    let prefix = LockPrefix::new_curator(&path, "lock-").unwrap();
                    let held = client.lock(prefix, b"", LockOptions::new(Acls::anyone_all())).await.unwrap();
                    game.handed_over();
                    // Its own way to release: not awaited.
                    drop(held);
                }
            });
        }
    })
}

/// When the lock was last given back, and how long each hand-over took.
pub(crate) struct Game {
    released: Mutex<Option<Instant>>,
    times: Mutex<Vec<Duration>>,
}

impl Game {
    /// To be called by who has just got the lock and is about to give it back.
    fn handed_over(&self) {
        let last = self.released.lock().unwrap().replace(Instant::now());
        self.times.lock().unwrap().extend(last.map(|last| last.elapsed()));
    }
}

fn measure<F: Future<Output = ()>>(
    packets: &mut dyn FnMut() -> u64,
    start: impl FnOnce(Arc<Game>) -> F,
) -> (Figures, u64) {
    let game = Arc::new(Game { released: Mutex::default(), times: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(start(Arc::clone(&game)));
    std::thread::sleep(WARM_UP);
    packets();
    game.times.lock().unwrap().clear();
    std::thread::sleep(MEASURED_FOR);
    let mut times = std::mem::take(&mut *game.times.lock().unwrap());
    let packets = packets();
    runtime.shutdown_timeout(Duration::from_secs(1));
    times.sort();
    let at = |share: usize| times[times.len() * share / 100];
    (Figures { hand_overs: times.len(), median: at(50), p99: at(99) }, packets)
}
