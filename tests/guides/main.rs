//! The Rust of `docs/testing.md` and `docs/operations.md`: compiled, run, and compared with what the pages show.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

mod operations;
mod testing;

use leasehold::DistributedLockExt;

#[test]
fn pages_show_the_programs_that_are_tested() {
    for (page, program) in [
        (include_str!("../../docs/testing.md"), include_str!("testing.rs")),
        (include_str!("../../docs/operations.md"), include_str!("operations.rs")),
    ] {
        let pieces = page.split("```rust\n").skip(1).filter_map(|rest| rest.split_once("```\n"));
        let shown: Vec<&str> = pieces.map(|(piece, _)| piece).collect();
        assert_eq!(shown.join("\n"), program);
    }
}

#[tokio::test]
async fn server_that_is_stopped_frees_its_lock() {
    let locks = leasehold::connect("memory:guides").await.unwrap();
    let other = leasehold::connect("memory:guides").await.unwrap();
    let stop = async {
        assert!(other.try_acquire("worker").await.unwrap().is_none());
    };
    operations::serve(&*locks, stop).await.unwrap();
    assert!(other.try_acquire("worker").await.unwrap().is_some());
    other.close().await.unwrap();
}
