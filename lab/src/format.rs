//! How things are called, and figures written, wherever the lab shows them.

use leasehold::semantics::{Fault, Outcome};

/// A fault: `store restarted`.
pub(crate) fn fault(fault: Fault) -> String {
    let name = serde_json::to_value(fault).ok();
    name.as_ref().and_then(serde_json::Value::as_str).unwrap_or("?").replace('-', " ")
}

pub(crate) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::FencedOnly => "fenced only",
        Outcome::Unavailable => "unavailable",
        Outcome::MayBreak => "may break",
        Outcome::NotApplicable => "–",
    }
}

/// A time, given in microseconds: three places that matter.
pub(crate) fn time(us: f64) -> String {
    let (value, unit) = match us {
        ..1e3 => (us, "µs"),
        1e3..1e6 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    format!("{} {unit}", places(value))
}

/// A number without a unit: `12,345`, `1.23`.
pub(crate) fn count(value: f64) -> String {
    if value.abs() < 1e3 {
        return places(value);
    }
    let digits = format!("{value:.0}");
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn bytes(value: f64) -> String {
    if value < 10_000.0 { format!("{} B", count(value)) } else { format!("{} kB", places(value / 1e3)) }
}

/// `a`, `a and b`, `a, b and c`; of more than so many, `a, b and 3 more`.
pub(crate) fn list(items: &[String], at_most: usize) -> String {
    let shown = if items.len() > at_most { at_most.saturating_sub(1).max(1) } else { items.len() };
    let (named, rest) = items.split_at(shown.min(items.len()));
    match (named, rest.len()) {
        ([], _) => String::new(),
        ([one], 0) => one.clone(),
        ([many @ .., last], 0) => format!("{} and {last}", many.join(", ")),
        (named, more) => format!("{} and {more} more", named.join(", ")),
    }
}

/// A name as a part of an anchor: letters, digits and dashes.
pub(crate) fn anchor(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(plain).collect()
}

/// Several lines, where there is one line for them.
pub(crate) fn joined_lines(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

fn places(value: f64) -> String {
    match value.abs() {
        ..0.000_5 => "0".to_owned(),
        ..10.0 => trimmed(format!("{value:.2}")),
        ..100.0 => trimmed(format!("{value:.1}")),
        _ => format!("{value:.0}"),
    }
}

/// Without zeros at the end of a fraction.
fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_places_that_matter() {
        let times =
            [(0.0, "0 µs"), (1.234, "1.23 µs"), (123.4, "123 µs"), (1_500.0, "1.5 ms"), (2.5e6, "2.5 s")];
        for (us, expected) in times {
            assert_eq!(time(us), expected);
        }
        let counts = [(0.0, "0"), (7.0, "7"), (99.94, "99.9"), (999.0, "999"), (1_234_567.0, "1,234,567")];
        for (value, expected) in counts {
            assert_eq!(count(value), expected);
        }
        assert_eq!((bytes(577.0), bytes(123_456.0)), ("577 B".to_owned(), "123 kB".to_owned()));
    }

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let items: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        assert_eq!(list(&items[..0], 3), "");
        assert_eq!(list(&items[..1], 3), "a");
        assert_eq!(list(&items[..2], 3), "a and b");
        assert_eq!(list(&items[..3], 3), "a, b and c");
        assert_eq!(list(&items, 3), "a, b and 2 more");
        assert_eq!(list(&items, 1), "a and 3 more");
    }

    #[test]
    fn every_fault_and_outcome_has_words() {
        for each in Fault::ALL {
            assert_ne!(fault(each), "?");
        }
        assert_eq!(fault(Fault::StoreRestarted), "store restarted");
        assert_eq!(outcome(Outcome::FencedOnly), "fenced only");
    }
}
