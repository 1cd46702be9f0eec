//! Our locks beside those of other libraries, on the same servers and names: each excludes the other, wakes the other,
//! and takes over from the other when it dies.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod exclusion;
mod peer;
mod readers;

use leasehold::LockMode;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use peer::Library;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(4);
    let each = |library: Library, mode: LockMode| {
        trial(&format!("{library:?}::{mode}_holds_exclude_and_wake_both_ways"), vec![library], move || {
            exclusion::holds_exclude_and_wake_both_ways(library, mode);
        })
    };
    let trials = vec![
        each(Library::Curator, LockMode::Exclusive),
        each(Library::CuratorWrite, LockMode::Write),
        each(Library::CuratorWrite, LockMode::Shared),
        each(Library::CuratorRead, LockMode::Write),
        each(Library::Kazoo, LockMode::Exclusive),
        each(Library::KazooWithPatterns, LockMode::Exclusive),
        each(Library::KazooWrite, LockMode::Write),
        each(Library::KazooWrite, LockMode::Shared),
        each(Library::KazooRead, LockMode::Write),
        each(Library::RedisPy, LockMode::Exclusive),
        each(Library::RedisPy, LockMode::Shared),
        trial(
            "counters_of_three_libraries_lose_no_count",
            vec![Library::Curator, Library::Kazoo],
            exclusion::counters_lose_no_count,
        ),
        trial("readers_of_curator_and_ours_hold_together", vec![Library::CuratorRead], || {
            readers::readers_hold_together(Library::CuratorRead);
        }),
        trial("readers_of_kazoo_and_ours_hold_together", vec![Library::KazooRead], || {
            readers::readers_hold_together(Library::KazooRead);
        }),
        trial(
            "mutex_and_read_write_lock_of_curator_do_not_see_each_other",
            vec![Library::Curator, Library::CuratorRead],
            readers::kinds_of_curator_do_not_see_each_other,
        ),
        trial(
            "reader_of_kazoo_and_a_later_writer_wait_for_each_other",
            vec![Library::KazooRead],
            readers::kazoo_reader_and_a_later_writer_wait_for_each_other,
        ),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test that needs these libraries: without them it fails, or says that it has not run if that was asked for.
fn trial(name: &str, libraries: Vec<Library>, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || {
        let missing = libraries.iter().find_map(|library| library.missing());
        let server_missing = || libraries.iter().find_map(|library| library.server_missing());
        match missing.map(str::to_owned).or_else(server_missing) {
            None => {
                test();
                Ok(Completion::Completed)
            }
            Some(reason) if std::env::var_os("LEASEHOLD_SKIP_MISSING").is_some() => {
                Ok(Completion::ignored_with(format!("NOT RUN: {reason}")))
            }
            Some(reason) => Err(Failed::from(format!("{reason}; scripts/test installs it"))),
        }
    })
}
