use crate::progress::{erase_progress, rewritten};
use crate::{Failure, OutputOptions, StoreOptions, safe, write_with_timeout};
use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Where words for people go: standard error. Standard output is for data, and under `run` it is the command's alone.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    level: Level,
    /// How the call named the store, for calls that are to reach the same.
    store: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Silent,
    Quiet,
    Normal,
    Verbose,
}

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const LABEL: Style = AnsiColor::Cyan.on_default();

impl Console {
    /// A console that speaks as these options say.
    pub fn new(output: &OutputOptions, store: &StoreOptions) -> Self {
        let choice = match output.color {
            clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
            clap::ColorChoice::Always => anstream::ColorChoice::Always,
            clap::ColorChoice::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
        let level = match (output.quiet, output.verbose) {
            (0, false) => Level::Normal,
            (0, true) => Level::Verbose,
            (1, _) => Level::Quiet,
            _ => Level::Silent,
        };
        // Once in a process.
        Self { level, store: store.shell_words().leak() }
    }

    /// The console of a call whose options cannot be parsed.
    pub const fn before_options() -> Self {
        Self { level: Level::Normal, store: "" }
    }

    /// The options of the call that say which store, each behind a blank.
    pub fn store(self) -> &'static str {
        self.store
    }

    /// True if somebody sits there, or wants to know everything.
    pub fn is_watched(self) -> bool {
        self.level >= Level::Verbose || (self.level == Level::Normal && io::stderr().is_terminal())
    }

    /// True if somebody sits there, who has not asked for silence.
    pub fn is_at_terminal(self) -> bool {
        self.level >= Level::Normal && io::stderr().is_terminal()
    }

    /// True if notes are written.
    pub fn is_talkative(self) -> bool {
        self.level >= Level::Normal
    }

    /// What changes while something lasts: at a terminal a line that is rewritten, until something else is written or it is
    /// [ended](Self::end_progress).
    pub fn progress(self, what: impl Display) {
        if self.is_at_terminal() {
            let line = rewritten(&format!("leasehold: {}", plain(what)));
            let _ = write_with_timeout(io::stderr(), line.as_bytes());
        }
    }

    /// Removes the line of [`progress`](Self::progress).
    pub fn end_progress(self) {
        self.write(format_args!(""));
    }

    /// What is done, for those who asked.
    pub fn detail(self, what: impl Display) {
        if self.level >= Level::Verbose {
            self.write(format_args!("leasehold: {}\n", plain(what)));
        }
    }

    /// What somebody who sits there should know.
    pub fn note(self, what: impl Display) {
        if self.level >= Level::Normal {
            self.write(format_args!("leasehold: {}\n", plain(what)));
        }
    }

    /// What should not stay as it is.
    pub fn warn(self, what: impl Display, help: Option<&str>) {
        if self.level >= Level::Normal {
            self.write(format_args!("{WARNING}warning{WARNING:#}: {}\n", plain(what)));
            self.lines(help.map(|help| ("help", help)));
        }
    }

    /// What nobody is to miss although the command goes on: like a failure, also for who wants to hear only of these.
    pub fn alarm(self, what: impl Display, help: &'static str) {
        if self.level >= Level::Quiet {
            self.write(format_args!("{WARNING}warning{WARNING:#}: {}\n", plain(what)));
            self.lines([("help", help)]);
        }
    }

    /// What went wrong: one line, then what is known about it.
    pub fn fail(self, failure: &Failure) {
        if self.level < Level::Quiet || failure.is_silent() {
            return;
        }
        let tag = failure.tag();
        self.write(format_args!("{ERROR}error[{tag}]{ERROR:#}: {}\n", plain(failure.message())));
        let details = failure.details(self.store);
        self.lines(details.iter().map(|(label, text)| (*label, text.as_str())));
    }

    /// Labelled lines, of what was just said. A label that repeats is said once.
    pub fn lines<'a>(self, lines: impl IntoIterator<Item = (&'static str, &'a str)>) {
        if self.level < Level::Normal {
            return;
        }
        let mut last = "";
        for (label, text) in lines {
            let shown = if label == last { "" } else { label };
            self.write(format_args!("  {LABEL}{shown:<8}{LABEL:#} {}\n", plain(text)));
            last = label;
        }
    }

    /// Asks, and waits for the answer. No answer is a no.
    pub fn ask(self, question: impl Display) -> io::Result<bool> {
        self.write(format_args!("{} [y/N] ", plain(question)));
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Ignores errors: a closed standard error is no reason to let go of a lock, and neither is one without a reader, such as
    /// a terminal that Ctrl-S has stopped. Text that it does not take within the timeout is dropped.
    fn write(self, text: std::fmt::Arguments<'_>) {
        let stderr = io::stderr();
        let mut line = AutoStream::new(Vec::new(), AutoStream::choice(&stderr));
        let _ = line.write_fmt(text);
        let bytes = [erase_progress().into_bytes(), line.into_inner()].concat();
        let _ = write_with_timeout(stderr, &bytes);
    }
}

/// Some of what is said is a server's own words, wherever it stands in ours.
fn plain(text: impl Display) -> String {
    safe(&text.to_string())
}
