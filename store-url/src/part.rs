use leasehold_core::{Error, Result};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::fmt;

/// Decodes a part of a URL. An error names the part.
pub(super) fn decode(part: &str, text: &str) -> Result<String> {
    let is_escape = |text: &str| text.len() >= 2 && text.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(is_escape) {
        return Err(invalid(
            format_args!("its {part} has a % that encodes nothing"),
            "write a plain % as %25",
        ));
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(invalid(format_args!("its {part} is not UTF-8 once decoded"), "encode it as UTF-8")),
    }
}

pub(super) fn invalid(problem: impl fmt::Display, fix: impl Into<Cow<'static, str>>) -> Error {
    Error::invalid("store URL", problem, fix)
}
