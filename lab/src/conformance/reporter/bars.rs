use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use leasehold_conformance::CaseEvent;
use std::collections::BTreeMap;
use std::io;

/// A bar for each store, at a terminal.
#[derive(Debug)]
pub(super) struct Bars {
    all: MultiProgress,
    of: BTreeMap<String, ProgressBar>,
}

impl Bars {
    /// One for each of these subjects, as long as the subject stands here often.
    pub(super) fn new<'a>(subjects: impl Iterator<Item = &'a str>) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let mut of = BTreeMap::<String, ProgressBar>::new();
        for name in subjects {
            if let Some(bar) = of.get(name) {
                bar.inc_length(1);
                continue;
            }
            let bar = all.add(ProgressBar::new(1));
            if let Ok(style) =
                ProgressStyle::with_template("{prefix:20!} {bar:20} {pos:>3}/{len:3} {wide_msg} {eta}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(name.to_owned());
            of.insert(name.to_owned(), bar);
        }
        Self { all, of }
    }

    pub(super) fn observe(&self, event: CaseEvent<'_>) {
        match event {
            CaseEvent::Started(subject, case) => {
                if let Some(bar) = self.of.get(subject) {
                    bar.set_message(case.name());
                }
            }
            CaseEvent::Finished(result) => self.finished(&result.subject),
        }
    }

    pub(super) fn finished(&self, subject: &str) {
        if let Some(bar) = self.of.get(subject) {
            bar.inc(1);
        }
    }

    /// Prints where nothing else is drawn meanwhile.
    pub(super) fn above(&self, print: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.all.suspend(print)
    }

    pub(super) fn end(&self) {
        self.of.values().for_each(ProgressBar::finish_and_clear);
    }
}
