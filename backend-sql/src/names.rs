//! Names: how they are stored, and which may stand in a statement.

/// True for a name that may stand in a statement without quotes: letters, digits and `_`, not beginning with a digit.
pub(crate) fn is_identifier(name: &str, max_bytes: usize) -> bool {
    name.len() <= max_bytes
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The names that begin so: from the first of these on, and before the second. Names are UTF-8, in which the byte FF does not
/// occur.
#[cfg(feature = "_store")]
pub(crate) fn range(beginning: impl Into<Vec<u8>>) -> (Vec<u8>, Vec<u8>) {
    let first = beginning.into();
    let behind = [first.as_slice(), &[0xff]].concat();
    (first, behind)
}
