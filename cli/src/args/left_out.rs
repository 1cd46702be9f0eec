//! Verbs that other builds have.

use clap::error::{ContextKind, ContextValue};
use leasehold::{Error, ErrorKind};

/// The verbs of the feature `lab`.
const LAB: [&str; 4] = ["bench", "compare", "conformance", "report"];

/// Names the feature of a verb that is unknown to this build. A build with that feature parses the verb, and never asks.
pub(super) fn left_out(error: &clap::Error) -> Option<Error> {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    LAB.contains(&verb.as_str()).then(|| {
        Error::new(ErrorKind::Unsupported, format!("this leasehold was built without {verb:?}"))
            .with_help("cargo build --features lab")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_of_lab_is_known_and_another_is_not() {
        let left_out = |verb: &str| {
            let command = clap::Command::new("leasehold").subcommand(clap::Command::new("run"));
            left_out(&command.try_get_matches_from(["leasehold", verb]).unwrap_err())
        };
        let error = left_out("bench").unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.to_string(), "this leasehold was built without \"bench\"");
        assert_eq!(error.help(), Some("cargo build --features lab"));
        assert!(left_out("benchmark").is_none() && left_out("--bench").is_none());
    }
}
