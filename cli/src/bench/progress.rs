use super::plan::Row;
use crate::report::Console;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far it is: a bar at a terminal, a line for each pass elsewhere for those who asked.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    console: Console,
}

impl Progress {
    pub(super) fn new(console: Console, steps: usize) -> Self {
        let target =
            if console.is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg} {eta}") {
            bar.set_style(style);
        }
        Self { bar, console }
    }

    pub(super) fn step(&self, row: Row, pass: usize) {
        self.bar.set_message(row.to_string());
        self.bar.inc(1);
        self.console.detail(format_args!("pass {}: {row}", pass + 1));
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
