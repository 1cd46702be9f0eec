//! What the parser of the command line refuses, in the style of the other errors.

use leasehold::{Error, ErrorKind};
use leasehold_console::Failure;
use leasehold_console::exit::Code;

/// The parser renders its message in one paragraph, and tips, the usage and where to find more in others.
pub(super) fn usage_error(error: &clap::Error) -> Failure {
    of_text(&error.render().to_string())
}

fn of_text(text: &str) -> Failure {
    let (first, others) = text.split_once("\n\n").unwrap_or((text, ""));
    let (mut message, mut details) = (String::new(), Vec::new());
    for line in first.trim_start_matches("error: ").lines().map(str::trim) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(values) => details.push(("help", values.to_owned())),
            None if message.is_empty() => line.clone_into(&mut message),
            None => message = format!("{message} {line}"),
        }
    }
    let mut label = "help";
    for line in others.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = match (line.strip_prefix("Usage: "), line.strip_prefix("tip: ")) {
            (Some(usage), _) => {
                label = "usage";
                usage
            }
            (None, tip) => {
                // The usage may have several lines, each of which begins with the name of the program.
                let goes_on = label == "usage" && line.starts_with("leasehold ");
                label = if goes_on { "usage" } else { "help" };
                tip.unwrap_or(line)
            }
        };
        details.push((label, line.to_owned()));
    }
    Failure::new(Error::new(ErrorKind::Invalid, message)).with_lines(details).exiting_with(Code::USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_several_lines_is_one() {
        let text = "error: the following were not provided:\n  --force\n\nUsage: leasehold a\n       leasehold b\n\nFor more, try '--help'.\n";
        let failure = of_text(text);
        assert_eq!(failure.message(), "the following were not provided: --force");
        let shown = format!("{failure:?}");
        assert!(
            shown.contains(r#"("usage", "leasehold a"), ("usage", "leasehold b"), ("help", "For more, try"#),
            "{shown}"
        );
    }
}
