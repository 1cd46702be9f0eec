//! The holder of a row, as it is entered in the table.

use crate::server::Value;
use leasehold_core::{FencingToken, HoldKind, HolderInfo, LockStatus, Namespace, OwnerId};
use std::time::{Duration, SystemTime};

/// The owner that has locked a row, as it was entered.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) stored_name: String,
    pub(super) owner: OwnerId,
    pub(super) token: FencingToken,
    pub(super) connection: i64,
    acquired_at: Option<SystemTime>,
    holder: String,
}

impl Holder {
    /// As `look.sql` and `list.sql` answer it.
    pub(super) fn read(row: &[Value]) -> Option<Self> {
        let [name, owner, token, acquired_at, connection, holder] = row else {
            return None;
        };
        let acquired_at = u64::try_from(acquired_at.as_int()?).ok()?;
        Some(Self {
            stored_name: String::from_utf8(name.as_bytes()?.to_vec()).ok()?,
            owner: OwnerId::from_bytes(owner.as_bytes()?)?,
            token: FencingToken::new(u64::try_from(token.as_int()?).ok()?),
            connection: connection.as_int()?,
            acquired_at: SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(acquired_at)),
            holder: holder.as_text()?.to_owned(),
        })
    }

    /// The lock as people see it; `None` if it is of another namespace.
    pub(super) fn status(&self, namespace: &Namespace) -> Option<LockStatus> {
        let mut status = LockStatus::new(namespace.name(&self.stored_name)?);
        status.hold = HoldKind::Connection;
        status.owner = Some(self.owner);
        status.token = Some(self.token);
        status.holder = HolderInfo::from_json(&self.holder);
        status.acquired_at = self.acquired_at;
        Some(status)
    }
}
