//! Names as they are stored: as bytes, in the order of the bytes.

/// The names that begin so: from the first of these on, and before the second. Names are UTF-8, in which the byte FF does not
/// occur.
pub(crate) fn range(beginning: impl Into<Vec<u8>>) -> (Vec<u8>, Vec<u8>) {
    let first = beginning.into();
    let behind = [first.as_slice(), &[0xff]].concat();
    (first, behind)
}
