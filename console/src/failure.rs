use crate::exit::Code;
use crate::{block, holder, sentence};
use leasehold::admin::LockStatus;
use leasehold::{Error, ErrorKind};
use std::error::Error as _;

/// Why a verb did not do what it was asked to, and how to say so.
#[derive(Debug)]
pub struct Failure {
    /// `None` for an exit without a word.
    error: Option<Error>,
    /// A short stable name of what is wrong.
    tag: &'static str,
    code: Code,
    details: Vec<(&'static str, String)>,
    holder: Option<Box<LockStatus>>,
}

impl Failure {
    /// The failure of a verb by this error.
    pub fn new(error: Error) -> Self {
        Self {
            tag: error.kind().code(),
            code: Code::of_error(&error),
            error: Some(error),
            details: Vec::new(),
            holder: None,
        }
    }

    /// Something that the system denied to this program itself.
    pub fn internal(what: &'static str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let error = Error::new(ErrorKind::Unavailable, what).with_source(cause);
        Self::new(error).with_code("E_INTERNAL", Code::INTERNAL)
    }

    /// Says it under another name, and exits with another code.
    #[must_use]
    pub fn with_code(mut self, tag: &'static str, code: Code) -> Self {
        self.tag = tag;
        self.code = code;
        self
    }

    /// Exits with another code.
    #[must_use]
    pub fn exiting_with(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// An exit without a word.
    pub fn silent(code: Code) -> Self {
        Self { error: None, tag: "", code, details: Vec::new(), holder: None }
    }

    /// Adds labelled lines.
    #[must_use]
    pub fn with_lines(mut self, lines: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        self.details.extend(lines);
        self
    }

    /// Says who holds the lock.
    #[must_use]
    pub fn with_holder(mut self, holder: Option<LockStatus>) -> Self {
        self.holder = holder.map(Box::new);
        self
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.error.is_none()
    }

    pub(crate) fn tag(&self) -> &'static str {
        self.tag
    }

    /// The code to exit with.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The first line.
    pub fn message(&self) -> String {
        match (&self.holder, &self.error) {
            (Some(holder), _) => sentence(holder),
            (None, Some(error)) => error.to_string(),
            (None, None) => String::new(),
        }
    }

    /// The other lines; with commands for this store.
    pub(crate) fn details(&self, store: &str) -> Vec<(&'static str, String)> {
        let causes = self.error.as_ref().map(causes).unwrap_or_default();
        let mut lines: Vec<_> = causes.into_iter().map(|cause| ("cause", cause)).collect();
        lines.extend(self.details.iter().cloned());
        match &self.holder {
            Some(holder) => {
                // The message names the holder.
                lines.extend(block(holder).into_iter().filter(|(label, _)| *label != "holder"));
                lines.extend(holder::help(holder, store));
            }
            None => {
                let help = self.error.as_ref().and_then(Error::help);
                lines.extend(help.map(|help| ("help", help.to_owned())));
            }
        }
        lines
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

/// An error and its causes, for where there is one line. Some of it is what a server has said, and goes to a terminal.
pub fn in_one_line(error: &Error) -> String {
    crate::safe(&[vec![error.to_string()], causes(error)].concat().join(": "))
}

/// What the error was caused by, without what its own message says already.
fn causes(error: &Error) -> Vec<String> {
    let mut said = error.to_string();
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            said.clone_from(&text);
            causes.push(text);
        }
        cause = error.source();
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_in_one_line_has_every_cause_once() {
        let full = Error::new(ErrorKind::Unavailable, "no connections left")
            .with_source(std::io::Error::other("1040"));
        let silent = Error::new(ErrorKind::Indeterminate, "no answer within 5s").with_source(full.clone());
        assert_eq!(in_one_line(&silent), "no answer within 5s: no connections left: 1040");
        let said = Error::new(ErrorKind::Unavailable, "no answer: no connections left").with_source(full);
        assert_eq!(in_one_line(&said), "no answer: no connections left: 1040");
    }

    #[test]
    fn control_characters_of_a_cause_are_escaped() {
        let words = std::io::Error::other("\u{1b}[2Jall\nis well");
        let line = in_one_line(&Error::new(ErrorKind::Unavailable, "refused").with_source(words));
        assert!(line.starts_with("refused: ") && !line.contains(char::is_control), "{line:?}");
    }
}
