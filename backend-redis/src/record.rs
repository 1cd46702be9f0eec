//! The holder record: what the store knows of a grant beyond its owner.
//!
//! One line of text, `owner token granted_µs description`, so that one `SET` writes it with its expiry, and so that a
//! person who looks with `redis-cli GET` can read it. It lives and ends with its lock key.

use leasehold_core::{FencingToken, HolderInfo, OwnerId};
use std::time::{Duration, SystemTime};

/// A holder record.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    /// `None` once its holder has released the lock and it lingers.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) token: FencingToken,
    /// By the server's clock.
    pub(crate) granted_at: SystemTime,
    pub(crate) holder: HolderInfo,
    /// What the lock key has as its value while the grant stands.
    pub(crate) lock_value: String,
}

impl Record {
    /// Reads a record; `None` if another program wrote it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        let lock_value = parts.next()?;
        let owner = match lock_value {
            RELEASED => None,
            // Behind the owner, a node of several has attempt and place.
            owner => Some(OwnerId::from_hex(owner.split(':').next()?)?),
        };
        Some(Self {
            owner,
            token: FencingToken::new(parts.next()?.parse().ok()?),
            granted_at: SystemTime::UNIX_EPOCH
                .checked_add(Duration::from_micros(parts.next()?.parse().ok()?))?,
            holder: HolderInfo::from_json(parts.next()?),
            lock_value: lock_value.to_owned(),
        })
    }
}

/// The value of a lock that was released and lingers: nobody's owner id.
const RELEASED: &str = "released";

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_record_is_read_as_the_script_writes_it() {
        let record = Record::parse(&format!("{OWNER} 7 1000000 {{\"doing\":\"two words\"}}")).unwrap();
        assert_eq!(record.owner, OwnerId::from_hex(OWNER));
        assert_eq!(record.token, FencingToken::new(7));
        assert_eq!(record.granted_at, SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        assert_eq!(record.holder.doing, "two words");
        assert_eq!(record.lock_value, OWNER);
    }

    #[test]
    fn a_released_record_has_no_owner() {
        let record = Record::parse("released 7 1000000 {}").unwrap();
        assert_eq!((record.owner, record.token), (None, FencingToken::new(7)));
    }

    #[test]
    fn text_of_another_program_is_no_record() {
        for text in [
            "",
            "x",
            "released",
            OWNER,
            &format!("{OWNER} x 1 {{}}"),
            &format!("{OWNER} 1 -1 {{}}"),
            &format!("{OWNER} 1 1"),
        ] {
            assert_eq!(Record::parse(text), None, "{text}");
        }
    }
}
