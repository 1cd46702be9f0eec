//! Verbs that this build, or this command, does not have.

use clap::error::{ContextKind, ContextValue};
use leasehold::{Error, ErrorKind};

/// The verbs of the feature `lab`.
const LAB: [&str; 4] = ["bench", "compare", "conformance", "report"];

/// Verbs of other programs, and what is meant.
const MEANT: [(&str, &str); 8] = [
    ("status", "leasehold inspect NAME shows a lock, leasehold ls all that are held"),
    ("show", "leasehold inspect NAME shows a lock"),
    ("list", "leasehold ls lists the locks that are held"),
    (
        "lock",
        "leasehold run NAME -- COMMAND runs a command under a lock; leasehold hold NAME holds one without",
    ),
    ("acquire", "leasehold hold NAME holds a lock; leasehold run NAME -- COMMAND runs a command under one"),
    ("exec", "leasehold run NAME -- COMMAND runs a command under a lock"),
    ("unlock", "a lock is released when its command ends; leasehold release --force NAME takes it away"),
    ("lead", "leasehold elect NAME -- COMMAND runs a command whenever this host leads"),
];

/// Says of a verb that is unknown to this build which feature has it, or which verb is meant. A build with that feature parses the verb, and
/// never asks.
pub(super) fn left_out(error: &clap::Error) -> Option<Error> {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    if LAB.contains(&verb.as_str()) {
        let message = format!("this leasehold was built without {verb:?}");
        return Some(Error::new(ErrorKind::Unsupported, message).with_help("cargo build --features lab"));
    }
    let (_, meant) = MEANT.into_iter().find(|(known, _)| known == verb)?;
    Some(Error::invalid("verb", format_args!("there is no {verb:?}"), meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(verb: &str) -> Option<Error> {
        let command = clap::Command::new("leasehold").subcommand(clap::Command::new("run"));
        left_out(&command.try_get_matches_from(["leasehold", verb]).unwrap_err())
    }

    #[test]
    fn verb_of_lab_is_known_and_another_is_not() {
        let error = of("bench").unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.to_string(), "this leasehold was built without \"bench\"");
        assert_eq!(error.help(), Some("cargo build --features lab"));
        assert!(of("benchmark").is_none() && of("--bench").is_none());
    }

    #[test]
    fn verb_of_another_program_names_the_one_that_is_meant() {
        let error = of("unlock").unwrap();
        assert_eq!(error.to_string(), "invalid verb: there is no \"unlock\"");
        assert!(error.help().is_some_and(|help| help.contains("leasehold release --force")));
    }
}
