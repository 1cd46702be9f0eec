//! Negative controls: locks that are broken on purpose, each with one classic mistake, on a real server.
//!
//! Each has three lines, or two where it stands in the table once more. The case that is named for it catches it, in the
//! words that fit its mistake; the same lock without the mistake passes that case, so that it is the mistake that is
//! caught; and the plainest cases pass, so that it is a lock that would have been trusted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod by_hand;
mod calls;
mod control;
mod controls;
mod guards;
mod line_controls;
mod locks;
mod mistakes;
mod permits;
mod plain;
mod plain_admin;
mod scopes;
mod sets;
mod shared;
mod shared_hints;
mod shared_mistakes;
mod shared_queue;
mod sound;
mod steps;
mod subject;
mod table;
mod trials;
mod values;
mod waiters;

use control::Control;
use controls::controls;
use leasehold_conformance::serve_as_worker;
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let controls: Vec<Arc<Control>> = controls().into_iter().map(Arc::new).collect();
    let subjects = controls.iter().flat_map(|control| [control.broken(), control.mended()]);
    let subjects: Vec<_> = subjects.chain(sound::subjects()).collect();
    if let Some(done) = serve_as_worker(&subjects) {
        return done;
    }
    // Broken locks panic: some of them are caught by that, and it is not to be read.
    std::panic::set_hook(Box::new(|_| {}));
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(16);
    let mut trials: Vec<Trial> =
        controls.iter().flat_map(|control| trials::of_control(control, &controls)).collect();
    trials.extend(sound::trials());
    trials.push(Trial::test("documentation_names_every_broken_lock", move || Ok(table::check(&controls)?)));
    trials.sort_by_key(|trial| trials::order_of(trial.name()));
    let conclusion = libtest_mimic::run(&arguments, trials);
    locks::zookeeper::end_idle();
    conclusion.exit_code()
}
