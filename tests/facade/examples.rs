//! The short examples run to their end, on locks in memory.

use std::process::Command;

const EXAMPLES: &[&str] = &[
    "hello",
    "lock_set",
    "scope",
    "semaphore",
    "election",
    #[cfg(feature = "metrics")]
    "metrics",
    "flash_sale_sets",
];

#[test]
fn short_examples_succeed() {
    let program = std::env::current_exe().unwrap();
    let examples = program.parent().unwrap().parent().unwrap().join("examples");
    for name in EXAMPLES {
        // `cargo test` builds them, unless it is told which targets to build.
        let output = Command::new(examples.join(name)).output();
        let output = output.unwrap_or_else(|error| panic!("{name}: {error}: run cargo build --examples"));
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
