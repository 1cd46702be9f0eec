//! The directory of the locks: the path of the URL.

use leasehold_core::{Error, Result};

/// The directory if the URL has no path. The root has nodes of the server itself.
const DEFAULT: &str = "/leasehold";
/// The directory of the server itself, in which every client may write unless it was closed.
const SYSTEM: &str = "zookeeper";
const MAX_BYTES: usize = 1024;

/// The absolute path without a slash at its end, from the text after the first slash of the URL.
pub(super) fn base_path(path: &str) -> Result<String> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(DEFAULT.to_owned());
    }
    if path.len() > MAX_BYTES {
        return Err(invalid(format_args!("{} bytes, limit {MAX_BYTES}", path.len()), "shorten it"));
    }
    for segment in path.split('/') {
        match segment {
            "" => return Err(invalid("it has an empty segment", "take the doubled slash out")),
            "." | ".." => return Err(invalid("it is a relative one", "write it without . and ..")),
            _ => {}
        }
    }
    if path.split('/').next() == Some(SYSTEM) {
        return Err(invalid("/zookeeper is the server's own", "use another directory"));
    }
    if let Some(odd) = path.chars().find(|c| refused(*c)) {
        let problem = format_args!("ZooKeeper takes no U+{:04X} in a path", u32::from(odd));
        return Err(invalid(problem, "use another character"));
    }
    Ok(format!("/{path}"))
}

/// Java looks at UTF-16 units, so everything outside the basic plane is refused with the surrogates (`PathUtils`).
fn refused(c: char) -> bool {
    let c = u32::from(c);
    matches!(c, 0x00..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..)
}

fn invalid(problem: impl std::fmt::Display, fix: &'static str) -> Error {
    Error::invalid("path of the store URL", problem, fix)
}
