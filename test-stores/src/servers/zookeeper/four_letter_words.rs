//! ZooKeeper's four-letter words: questions on a plain socket, which the server closes after its answer.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What a server of an ensemble is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZooKeeperRole {
    /// It alone is the service.
    Standalone,
    /// It orders what the ensemble writes.
    Leader,
    /// It follows the leader.
    Follower,
}

/// Asks the server at this port of 127.0.0.1 a four-letter word.
///
/// # Errors
///
/// If nobody listens there, or the answer takes longer than `timeout`.
pub fn ask_zookeeper(port: u16, word: &str, timeout: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The role of the server at this port, or `None` if it does not serve: it is starting, or has lost its quorum.
pub(super) fn role(port: u16, timeout: Duration) -> Option<ZooKeeperRole> {
    let answer = ask_zookeeper(port, "srvr", timeout).ok()?;
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "))?;
    match mode.trim() {
        "standalone" => Some(ZooKeeperRole::Standalone),
        "leader" => Some(ZooKeeperRole::Leader),
        "follower" => Some(ZooKeeperRole::Follower),
        _ => None,
    }
}

/// The lines of `mntr` that have a whole number.
pub(super) fn numbers(mntr: &str) -> BTreeMap<String, u64> {
    let pairs = mntr.lines().filter_map(|line| line.split_once('\t'));
    pairs.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect()
}
