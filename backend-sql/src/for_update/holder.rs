//! The entries of a name in the table of holders: the exclusive owner or the readers, and the writers that wait for readers.
//!
//! The row that is locked says who holds; the entries are for people, for tokens, and to find out whether a connection has ended. The
//! entry of a holder that crashed stays until a later grant, or a cleanup, removes it.

use crate::server::Value;
use leasehold_core::{FencingToken, HoldKind, HolderInfo, LockMode, LockName, LockStatus, OwnerId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// How long a mark lasts: see `mark.sql`.
pub(super) const MARK_LASTS: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct HolderRow {
    pub(super) stored_name: String,
    /// The last token, of a present holder or of an earlier one.
    pub(super) token: FencingToken,
    pub(super) holders: Vec<Holder>,
    /// The owner of each waiting writer, in hexadecimal, and for how long its mark lasts still: zero if it is over.
    pub(super) marks: Vec<(String, Duration)>,
}

/// An owner that has locked the row, as it was entered.
#[derive(Debug, Deserialize)]
pub(super) struct Holder {
    /// In hexadecimal.
    pub(super) owner: String,
    pub(super) mode: LockMode,
    pub(super) token: FencingToken,
    pub(super) connection: i64,
    /// The user of the database; empty but for readers on MySQL and MariaDB.
    #[serde(default)]
    pub(super) user: String,
    /// Microseconds since 1970.
    acquired_at: u64,
    holder: String,
}

/// An entry of the column `sharers`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Sharer {
    /// Until when the mark of a waiting writer lasts. Its key is the owner.
    Mark(i64),
    /// Its key is the token.
    Reader(Holder),
}

impl HolderRow {
    /// As `look.sql` and `list.sql` answer it; `None` if another program wrote it.
    pub(super) fn read(row: &[Value]) -> Option<Self> {
        let [name, owner, token, acquired_at, connection, holder, sharers, now] = row else {
            return None;
        };
        let (token, now) = (FencingToken::new(u64::try_from(token.as_int()?).ok()?), now.as_int()?);
        let (mut holders, mut marks) = (Vec::new(), Vec::new());
        if let Some(owner) = owner.as_bytes() {
            holders.push(Holder {
                owner: OwnerId::from_bytes(owner)?.to_hex(),
                mode: LockMode::Exclusive,
                token,
                connection: connection.as_int()?,
                user: String::new(),
                acquired_at: u64::try_from(acquired_at.as_int()?).ok()?,
                holder: holder.as_text()?.to_owned(),
            });
        }
        let sharers: BTreeMap<String, Sharer> =
            serde_json::from_str(sharers.as_text().unwrap_or("{}")).ok()?;
        for (key, sharer) in sharers {
            match sharer {
                Sharer::Mark(until) => marks.push((key, left(until, now))),
                Sharer::Reader(reader) => holders.push(reader),
            }
        }
        let stored_name = String::from_utf8(name.as_bytes()?.to_vec()).ok()?;
        Some(Self { stored_name, token, holders, marks })
    }

    pub(super) fn readers(&self) -> impl Iterator<Item = &Holder> {
        self.holders.iter().filter(|holder| holder.mode.is_shared())
    }

    /// The time until the last mark ends; `None` without a mark that lasts.
    pub(super) fn readers_blocked_for(&self) -> Option<Duration> {
        self.marks.iter().map(|(_, left)| *left).max().filter(|left| !left.is_zero())
    }
}

/// A mark that ends later than any could was written before the server's clock was set back, and is over.
fn left(until: i64, now: i64) -> Duration {
    let left = u64::try_from(until.saturating_sub(now)).map(Duration::from_micros).unwrap_or_default();
    if left <= MARK_LASTS { left } else { Duration::ZERO }
}

impl Holder {
    pub(super) fn is_of(&self, owner: OwnerId) -> bool {
        self.owner == owner.to_hex()
    }

    pub(super) fn status(&self, name: &LockName) -> LockStatus {
        let mut status = LockStatus::new(name.clone());
        status.hold = HoldKind::Connection;
        status.mode = self.mode;
        status.owner = OwnerId::from_hex(&self.owner);
        status.token = Some(self.token);
        status.holder = HolderInfo::from_json(&self.holder);
        status.acquired_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(self.acquired_at));
        status
    }
}
