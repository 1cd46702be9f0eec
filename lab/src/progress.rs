use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leasehold_console::Console;
use std::fmt::Display;
use std::time::Duration;

/// How far it is: a line that moves at a terminal; elsewhere a line now and then.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    console: Console,
}

impl Progress {
    pub(crate) fn new(console: Console, steps: usize) -> Self {
        let target =
            if console.is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg} {eta}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, console }
    }

    pub(crate) fn step(&self, what: impl Display) {
        self.bar.set_message(what.to_string());
        self.bar.inc(1);
        self.console.detail(what);
    }

    /// Says something that stays.
    pub(crate) fn say(&self, what: impl Display) {
        self.above(|| self.console.note(what));
    }

    /// Prints without tearing the bar.
    pub(crate) fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
