//! What a lock costs beside the bare statements, and how fast it is handed over, on real servers in one run.
//!
//! `cargo bench -p leasehold-sql --features mysql,postgres --bench servers`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that fails has nothing to say")]

mod hand_over;
#[path = "../../tests/servers/kit.rs"]
#[allow(dead_code, unreachable_pub, reason = "made for the tests")]
mod kit;
mod pairs;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    for server in kit::both().await {
        pairs::measure(&server).await;
        hand_over::measure(&server).await;
    }
}
