use crate::{Error, Result};
use std::time::Duration;

/// Reads a duration with its unit: `30s`, `1500ms`, `1m 30s`, `2h`. Anything else is [`Invalid`](crate::ErrorKind::Invalid),
/// also a number without a unit: half of all lock libraries read it as milliseconds. `field` names it in the error.
pub fn parse_duration(field: &str, text: &str) -> Result<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let fix = format!("write {text}s or {text}ms");
        return Err(Error::invalid(field, format_args!("{text:?} has no unit"), fix));
    }
    humantime::parse_duration(text).map_err(|problem| {
        Error::invalid(field, format_args!("{text:?}: {problem}"), "write it like 30s, 1500ms or 1m 30s")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_with_its_unit_is_read() {
        assert_eq!(parse_duration("ttl", "30s").unwrap(), Duration::from_secs(30));
        assert_eq!(parse_duration("ttl", " 1m 30s ").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("ttl", "1500ms").unwrap(), Duration::from_millis(1500));
    }

    #[test]
    fn text_that_is_no_duration_is_refused_with_the_right_form() {
        let error = parse_duration("ttl", "30").unwrap_err();
        assert_eq!(error.to_string(), "invalid ttl: \"30\" has no unit");
        assert_eq!(error.help(), Some("write 30s or 30ms"));
        for odd in ["", "-5s", "NaN", "1e9s", "５s", "s", "30 parsecs", "99999999999999999999s"] {
            let error = parse_duration("ttl", odd).unwrap_err();
            assert!(error.to_string().starts_with("invalid ttl: "), "{odd}: {error}");
        }
    }
}
