use leasehold_core::{Error, Result};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::fmt;

/// Characters that get to the end of a value by a mistake in a configuration: quotes that were kept, the comma or the semicolon of a
/// list, the sign of an assignment, a mark that no editor shows (of Unicode's category Cf, without the tags that end a flag).
const SLIPS: &str = "\"'`,;=“”„‘’«»\
    \u{ad}\u{61c}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
    \u{2060}\u{2061}\u{2062}\u{2063}\u{2064}\u{2066}\u{2067}\u{2068}\u{2069}\u{206a}\u{206b}\u{206c}\u{206d}\u{206e}\u{206f}\u{feff}";

/// The mistake at the ends of a name, a prefix or a path, if there is one: white space, a control character, quotes, a comma and
/// the like. Such a value would silently mean another store. `what` is its subject, as in "it ends with ','".
pub fn slip_at_ends(what: &str, text: &str) -> Option<String> {
    if text.trim() != text {
        return Some(format!("there is white space around {what}"));
    }
    let slip = |c: Option<char>| c.filter(|c| c.is_control() || SLIPS.contains(*c));
    let (first, last) = (slip(text.chars().next()), slip(text.chars().next_back()));
    let told = |verb, c| format!("{what} {verb} with {c:?}");
    first.map(|c| told("begins", c)).or_else(|| last.map(|c| told("ends", c)))
}

/// Decodes a part of a URL. An error names the part.
pub(super) fn decode(part: &str, text: &str) -> Result<String> {
    let is_escape = |text: &str| text.len() >= 2 && text.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(is_escape) {
        let fix = "write a plain % as %25";
        return Err(invalid(format_args!("its {part} has a % that encodes nothing"), fix));
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(invalid(format_args!("its {part} is not UTF-8 once decoded"), "encode it as UTF-8")),
    }
}

pub(super) fn invalid(problem: impl fmt::Display, fix: impl Into<Cow<'static, str>>) -> Error {
    Error::invalid("store URL", problem, fix)
}
