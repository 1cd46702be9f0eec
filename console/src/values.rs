//! Values on a command line.

use leasehold::parse_duration;
use std::borrow::Cow;
use std::time::Duration;

/// Parses a duration with its unit, such as `10s`.
///
/// # Errors
///
/// The problem and its remedy, in one line.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration("time", text).map_err(|error| {
        let message = error.to_string();
        let problem = message.strip_prefix("invalid time: ").unwrap_or(&message);
        match error.help() {
            Some(help) => format!("{problem}; {help}"),
            None => problem.to_owned(),
        }
    })
}

/// A word as a shell has to be given it, for commands that are suggested.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@%+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_command_can_be_pasted() {
        assert_eq!(shell_word("a/b-1"), "a/b-1");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word("$(rm)"), "'$(rm)'");
        assert_eq!(shell_word(""), "''");
    }
}
