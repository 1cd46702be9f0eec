//! Several processes on one file: of all that ask at once, one is granted.

use super::store::Store;
use super::worker::Worker;

const TIMES: u64 = 60;

async fn processes_count(processes: u64) {
    let store = Store::new();
    let count = store.directory().join("count");
    std::fs::write(&count, "0 0").unwrap();
    let mut workers: Vec<Worker> = (0..processes).map(|_| Worker::start(&store.url())).collect();
    for worker in &mut workers {
        let command = format!("count {TIMES} {} counter", count.display());
        worker.send(&command).await;
    }
    for worker in &mut workers {
        assert_eq!(worker.answer().await, "counted");
    }
    let text = std::fs::read_to_string(&count).unwrap();
    let (counted, _) = text.split_once(' ').unwrap();
    assert_eq!(counted, (processes * TIMES).to_string());
}

#[tokio::test]
async fn two_processes_count_exactly() {
    processes_count(2).await;
}

#[tokio::test]
async fn four_processes_count_exactly() {
    processes_count(4).await;
}

#[tokio::test]
async fn processes_that_make_the_file_at_once_all_succeed() {
    // Each round is a race of its own; the workers are there before it begins.
    for _ in 0..5 {
        let store = Store::new();
        let mut workers: Vec<Worker> = (0..4).map(|_| Worker::start(&store.url())).collect();
        for worker in &mut workers {
            worker.send("init").await;
        }
        for worker in &mut workers {
            assert_eq!(worker.answer().await, "made");
        }
        assert_eq!(store.number("SELECT count(*) FROM leasehold").await, 0);
    }
}

#[tokio::test]
async fn started_program_inherits_no_file() {
    let store = Store::new();
    let mut worker = Worker::start(&store.url());
    assert!(worker.ask("try a").await.starts_with("granted"));
    assert!(worker.ask("hold b 30000").await.starts_with("token"));
    let own = std::fs::read_dir(format!("/proc/{}/fd", worker.id())).unwrap();
    let opened = own.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
    assert!(opened.into_iter().any(|file| file == store.file()));
    let inherited = worker.ask("files").await;
    assert!(inherited.contains("/proc/"), "{inherited}");
    assert!(!inherited.contains("locks.db"), "{inherited}");
}
