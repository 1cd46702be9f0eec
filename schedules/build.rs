//! Chooses the mutexes of the explorer, see `core/src/sync.rs`.

#![allow(clippy::print_stdout, reason = "that is how a build script speaks")]

fn main() {
    println!("cargo::rustc-cfg=shuttle");
}
