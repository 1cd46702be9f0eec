//! The guide for authors of backends shows a backend that works: the very file that the suite runs.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

#[test]
fn the_guide_shows_the_toy_backend_to_the_letter() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/backend-author.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, code) = guide.split_once("```rust\n").unwrap();
    let (code, _) = code.split_once("```\n").unwrap();
    assert_eq!(code, include_str!("toy.rs"), "copy tests/toy.rs into docs/backend-author.md");
}
