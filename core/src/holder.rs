use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a holder says about itself. For people who look at a lock; no decision depends on it.
///
/// Stored beside the lock as JSON of at most [`MAX_BYTES`](Self::MAX_BYTES), in ASCII: any other character takes six
/// bytes (`\u2026`), or twelve. Do not put secrets in: everybody who may look at the store sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HolderInfo {
    /// The user that the process runs as: `USER`, else `LOGNAME`, else `uid` and its number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The host name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The process id, 0 if not told.
    pub pid: u32,
    /// Its work, for instance a command line without its secrets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub doing: String,
    /// Anything else, as pairs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl HolderInfo {
    /// The largest stored form, in bytes of JSON. ZooKeeper drops the connection on a payload that is too large.
    pub const MAX_BYTES: usize = 1024;
    /// The longest user, host and program name taken from the system, in characters; at most four times as many bytes in JSON.
    const MAX_PART: usize = 64;

    /// This process: user and host name as far as they are known, process id, and the file name of the program.
    pub fn this_process() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = std::path::Path::new(&program).file_name().unwrap_or_default();
        Self {
            user: cut(&user()),
            host: cut(&rustix::system::uname().nodename().to_string_lossy()),
            pid: std::process::id(),
            doing: cut(&program.to_string_lossy()),
            labels: BTreeMap::new(),
        }
    }

    /// Sets the work of the holder. Default: the name of the program.
    #[must_use]
    pub fn with_doing(mut self, doing: impl Into<String>) -> Self {
        self.doing = doing.into();
        self
    }

    /// Adds a label. Default: none.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// The form in which it is stored.
    pub fn to_json(&self) -> String {
        ascii_json(self)
    }

    /// Reads the stored form. The text of another program is no error: it becomes the work of the holder.
    pub fn from_json(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_else(|_| Self::default().with_doing(json))
    }
}

/// JSON without a character that a database's encoding could lack: one of Latin letters alone refuses all others.
fn ascii_json(value: &(impl Serialize + ?Sized)) -> String {
    // Strings and numbers cannot fail to serialise; should they ever, "no information" is the right form.
    let json = serde_json::to_string(value).unwrap_or_default();
    // Outside of strings JSON is ASCII, so an escape is within one.
    let escaped = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
        _ => format!("\\u{unit:04x}"),
    };
    json.encode_utf16().map(escaped).collect()
}

/// A login sets both variables, cron the second alone, and a container as a rule none.
fn user() -> String {
    ["USER", "LOGNAME"]
        .into_iter()
        .filter_map(|variable| std::env::var(variable).ok())
        .find(|user| !user.is_empty())
        .unwrap_or_else(|| format!("uid{}", rustix::process::getuid().as_raw()))
}

/// Cuts a part to its longest form. A longer text in the environment would make every acquisition invalid.
fn cut(part: &str) -> String {
    let mut part: String = part.chars().take(HolderInfo::MAX_PART).collect();
    while ascii_json(&part).len() > 4 * HolderInfo::MAX_PART {
        part.pop();
    }
    part
}

/// `user@host:pid`, as far as it is known.
impl fmt::Display for HolderInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.user.is_empty() && self.host.is_empty() && self.pid == 0 {
            return f.write_str("an unnamed holder");
        }
        write!(f, "{}@{}:{}", self.user, self.host, self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_form_is_read_back_and_foreign_text_is_kept() {
        let info = HolderInfo::this_process().with_doing("reindex").with_label("version", "1.4");
        assert_eq!(HolderInfo::from_json(&info.to_json()), info);
        assert_eq!(HolderInfo::from_json("by hand").doing, "by hand");
    }

    #[test]
    fn stored_form_is_ascii() {
        let info = HolderInfo::default().with_doing("sleep …\t\"\\\u{7f}é").with_label("clé", "𝄞\u{ffff}🔒");
        let stored = info.to_json();
        assert!(stored.is_ascii() && stored.contains(r"sleep \u2026\t"), "{stored}");
        assert!(stored.contains(r"\ud834\udd1e\uffff\ud83d\udd12"), "{stored}");
        assert_eq!(HolderInfo::from_json(&stored), info);
    }

    #[test]
    fn longest_user_and_host_leave_room_for_the_description() {
        for letter in ["x", "é", "日", "🔒", "\u{7f}"] {
            let part = cut(&letter.repeat(1_000));
            let stored = HolderInfo::default().with_doing(part.clone()).to_json();
            assert!(stored.len() < 280 && !part.is_empty(), "{} bytes of {letter:?}", stored.len());
        }
        assert_eq!(cut(&"x".repeat(64)).len(), 64);
    }
}
