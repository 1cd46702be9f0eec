//! The end of a directory's numbers. No request sets the counter of a directory, so the test changes a snapshot of the server.

use crate::kit::*;
use leasehold_core::{ErrorKind, LockBackend, Renewal};
use leasehold_test_stores::servers::ZooKeeperServer;
use std::path::{Path, PathBuf};
use zookeeper_client::CreateMode;

/// The last number that is not refused.
const LAST: i32 = i32::MAX - (1 << 20);
/// The bytes behind each checksum of a snapshot.
const SEAL: &[u8] = b"\0\0\0\x01/";

/// A server on which the next node of the lock `job` has this number, in a directory that stays when it is empty.
async fn server_that_counts_from(number: i32) -> ZooKeeperServer {
    let mut server = server();
    let (look, job) = (Look::at(&server).await, format!("{BASE}/job"));
    look.make(BASE, CreateMode::Persistent).await;
    look.make(&job, CreateMode::Persistent).await;
    drop(look);
    // The server writes a snapshot when it starts.
    server.kill();
    server.restart(true).unwrap();
    server.kill();
    let files = server.data().join("version-2");
    let snapshot = files_named(&files, "snapshot.").into_iter().max_by_key(|file| zxid(file)).unwrap();
    let counted = with_counter(&std::fs::read(&snapshot).unwrap(), &job, number);
    std::fs::write(&snapshot, counted).unwrap();
    for log in files_named(&files, "log.") {
        std::fs::remove_file(log).unwrap();
    }
    server.restart(true).unwrap();
    server
}

fn files_named(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.file_name().unwrap().to_string_lossy().starts_with(prefix)).collect()
}

/// The last transaction of a snapshot, from its name.
fn zxid(file: &Path) -> u64 {
    u64::from_str_radix(&file.extension().unwrap().to_string_lossy(), 16).unwrap()
}

/// The snapshot with another `cversion` of this node: path, data, access list, then four times, two versions.
fn with_counter(snapshot: &[u8], path: &str, number: i32) -> Vec<u8> {
    let length = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap()) as usize;
    let key = [&u32::try_from(path.len()).unwrap().to_be_bytes(), path.as_bytes()].concat();
    let data = snapshot.windows(key.len()).position(|bytes| *bytes == *key).unwrap() + key.len();
    let counter = data + 4 + length(&snapshot[data..data + 4]) + 8 + 4 * 8 + 4;
    let mut counted = snapshot.to_vec();
    counted[counter..counter + 4].copy_from_slice(&number.to_be_bytes());
    for seal in (8..snapshot.len()).filter(|at| snapshot[*at..].starts_with(SEAL)) {
        let sum = seal - 8..seal;
        if snapshot[sum.clone()] == adler32(&snapshot[..sum.start]).to_be_bytes() {
            let changed = adler32(&counted[..sum.start]);
            counted[sum].copy_from_slice(&changed.to_be_bytes());
        }
    }
    counted
}

/// RFC 1950.
fn adler32(bytes: &[u8]) -> u64 {
    let next = |(low, high): (u64, u64), byte: &u8| {
        let low = (low + u64::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    };
    let (low, high) = bytes.iter().fold((1, 0), next);
    high << 16 | low
}

#[tokio::test]
async fn number_that_may_repeat_is_refused() {
    let server = server_that_counts_from(i32::MAX).await;
    let look = Look::at(&server).await;
    for _ in 0..2 {
        let error = answered(backend(&server.url()).try_acquire(&claim("job"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("/leasehold/job") && error.help().is_some(), "{error:?}");
        assert_eq!(look.line("job").await, [""; 0]);
    }
}

#[tokio::test]
async fn last_unique_number_holds_and_a_new_directory_begins_at_zero() {
    let server = server_that_counts_from(LAST).await;
    let (one, other, look) = (backend(&server.url()), backend(&server.url()), Look::at(&server).await);
    let (last, late) = (claim("job"), claim("job"));
    let first = hold(&one, &last).await;
    assert!(look.only_node("job").await.ends_with(&LAST.to_string()));

    for backend in [&one, &other] {
        let error = answered(backend.try_acquire(&late)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    look.only_node("job").await;
    assert_eq!(renew(&one, &last).await.unwrap(), Renewal::Renewed);

    release(&one, &last).await;
    look.wipe(&format!("{BASE}/job")).await;
    assert!(hold(&other, &late).await > first);
}
