//! What a hand-over costs on ZooKeeper: our lock, the lock recipe of `zookeeper-client`, and Apache Curator's, on one
//! server in one run.
//!
//! All players of a row share one session, as the tasks of one process do; whoever gets the lock gives it back at
//! once. A hand-over is counted from the call of release to the return of the next acquire. Packets are the server's
//! own count, both ways. After that: what becomes of a held lock when the leader of an ensemble is killed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement prints what it measured"
)]

mod curator;
mod election;
mod libraries;

use leasehold_test_stores::servers::ZooKeeperServer;
use std::time::Duration;

const WAITERS: [usize; 3] = [1, 8, 64];
const PASSES: usize = 3;
const MEASURED_FOR: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(700);

/// The hand-overs of one pass.
pub(crate) struct Figures {
    pub(crate) hand_overs: usize,
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
}

fn main() {
    // `cargo test --benches` only asks whether it still compiles.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    compare_hand_overs();
    election::kill_leaders();
}

fn compare_hand_overs() {
    let server = ZooKeeperServer::start().unwrap();
    println!("waiters  lock              hand-over p50      p99   per second   packets each");
    for waiters in WAITERS {
        for _ in 0..PASSES {
            for (name, run) in libraries::LIBRARIES {
                let path = format!("/bench-{:08x}", fastrand::u32(..));
                let mut counted = 0;
                let mut packets = || {
                    let before = std::mem::replace(&mut counted, server.traffic().unwrap().messages);
                    counted - before
                };
                let (figures, packets) = run(&server.address(), &path, waiters + 1, &mut packets);
                print_row(waiters, name, &figures, packets);
            }
        }
    }
}

fn print_row(waiters: usize, name: &str, figures: &Figures, packets: u64) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{waiters:>7}  {name:<16} {:>11.0} us {:>6.0} us {:>12.0} {:>14.1}",
        micros(figures.median),
        micros(figures.p99),
        figures.hand_overs as f64 / MEASURED_FOR.as_secs_f64(),
        packets as f64 / figures.hand_overs as f64,
    );
}
