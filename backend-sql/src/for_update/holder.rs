//! What is entered of a name in the table of holders: the exclusive owner or the readers, and the writers that wait for readers.
//!
//! The row that is locked says who holds; the entries are for people, for tokens, and for the ends of connections. An entry of a holder
//! that crashed stays until the next exclusive grant.

use crate::server::Value;
use leasehold_core::{FencingToken, HoldKind, HolderInfo, LockMode, LockName, LockStatus, OwnerId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The entries of one name.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) stored_name: String,
    /// The last token, of a present holder or of an earlier one.
    pub(super) token: FencingToken,
    pub(super) holders: Vec<Holder>,
    /// The waiting writers, in hexadecimal, and until when their marks keep new readers out.
    pub(super) marks: Vec<(String, i64)>,
    /// The server's time, in microseconds since 1970.
    pub(super) now: i64,
}

/// An owner that has locked the row, as it was entered.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) owner: OwnerId,
    pub(super) mode: LockMode,
    pub(super) token: FencingToken,
    pub(super) connection: i64,
    /// The user of the connection, of a reader on MySQL and MariaDB.
    pub(super) user: String,
    acquired_at: Option<SystemTime>,
    holder: String,
}

/// An entry of the column `sharers`: of a reader under its token, of a waiting writer under its owner.
#[derive(Deserialize)]
#[serde(untagged)]
enum Sharer {
    Writer(i64),
    Reader {
        owner: String,
        acquired_at: i64,
        connection: i64,
        holder: String,
        #[serde(default)]
        user: String,
    },
}

impl Entered {
    /// As `look.sql` and `list.sql` answer it; `None` if another program wrote it.
    pub(super) fn read(row: &[Value]) -> Option<Self> {
        let [name, owner, token, acquired_at, connection, holder, sharers, now] = row else {
            return None;
        };
        let token = FencingToken::new(u64::try_from(token.as_int()?).ok()?);
        let mut entered = Self {
            stored_name: String::from_utf8(name.as_bytes()?.to_vec()).ok()?,
            token,
            holders: Vec::new(),
            marks: Vec::new(),
            now: now.as_int()?,
        };
        if let Some(owner) = owner.as_bytes() {
            entered.holders.push(Holder {
                owner: OwnerId::from_bytes(owner)?,
                mode: LockMode::Exclusive,
                token,
                connection: connection.as_int()?,
                user: String::new(),
                acquired_at: unix_time(acquired_at.as_int()?),
                holder: holder.as_text()?.to_owned(),
            });
        }
        if let Some(sharers) = sharers.as_text() {
            entered.read_sharers(serde_json::from_str(sharers).ok()?)?;
        }
        Some(entered)
    }

    fn read_sharers(&mut self, sharers: BTreeMap<String, Sharer>) -> Option<()> {
        for (key, sharer) in sharers {
            match sharer {
                Sharer::Writer(until) => self.marks.push((key, until)),
                Sharer::Reader { owner, acquired_at, connection, holder, user } => {
                    self.holders.push(Holder {
                        owner: OwnerId::from_hex(&owner)?,
                        mode: LockMode::Shared,
                        token: FencingToken::new(key.parse().ok()?),
                        connection,
                        user,
                        acquired_at: unix_time(acquired_at),
                        holder,
                    })
                }
            }
        }
        Some(())
    }

    pub(super) fn reader(&self, token: FencingToken) -> Option<&Holder> {
        self.readers().find(|reader| reader.token == token)
    }

    pub(super) fn readers(&self) -> impl Iterator<Item = &Holder> {
        self.holders.iter().filter(|holder| holder.mode.is_shared())
    }

    /// For how long waiting writers keep new readers out, if any does.
    pub(super) fn readers_blocked_for(&self) -> Option<Duration> {
        let until = self.marks.iter().map(|(_, until)| *until).max()?;
        u64::try_from(until.saturating_sub(self.now)).ok().filter(|left| *left > 0).map(Duration::from_micros)
    }
}

impl Holder {
    /// The hold as people see it.
    pub(super) fn status(&self, name: &LockName) -> LockStatus {
        let mut status = LockStatus::new(name.clone());
        status.hold = HoldKind::Connection;
        status.mode = self.mode;
        status.owner = Some(self.owner);
        status.token = Some(self.token);
        status.holder = HolderInfo::from_json(&self.holder);
        status.acquired_at = self.acquired_at;
        status
    }
}

fn unix_time(micros: i64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(u64::try_from(micros).ok()?))
}
