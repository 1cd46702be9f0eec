use super::READERS;
use leasehold_core::{
    Busy, Error, ErrorKind, FencingToken, HolderInfo, LockName, LockStatus, LossCause, OwnerId, Result,
};
use std::fmt;
use std::time::{Duration, SystemTime};

/// A row of the table, as it was read. Times are in microseconds of the clock that counts leases.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRow {
    /// The name under which the store knows the lock: with the namespace in front.
    pub(crate) stored_name: String,
    /// The owner that holds, or held last. `None` after a release on a server; on SQLite while the linger lasts, or for another boot.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) token: FencingToken,
    /// The end of the lease, or of the linger after it.
    pub(crate) ends_at: i64,
    /// The time of the last grant, in microseconds since 1970.
    pub(crate) acquired_at: i64,
    /// The owner's description of itself, as JSON.
    pub(crate) holder: String,
    /// The readers that hold, and the writers that wait for them, as they are stored.
    pub(crate) sharers: String,
    pub(crate) now: i64,
    /// The clock from which tokens are made, in microseconds since 1970.
    pub(crate) unix_now: u64,
    /// What `replace` compares: on servers this alone; on SQLite beside the readers.
    pub(crate) version: Vec<i64>,
}

/// A row that another program has written under the name of a lock. Lists leave it out; until it ends, no claim is granted it.
pub(crate) fn foreign_row(name: &LockName, table: &dyn fmt::Display) -> Error {
    let message = format!("the row of {name:?} in {table} does not read as one of ours");
    Error::new(ErrorKind::Misconfigured, message)
        .with_help("look at who else writes to the table; if nobody needs the row, delete it")
}

impl LeaseRow {
    /// The time until the lease, or the linger after it, ends; `None` if any claim may take the row.
    pub(crate) fn ends_in(&self) -> Option<Duration> {
        Some(micros(self.ends_at.saturating_sub(self.now))).filter(|left| !left.is_zero())
    }

    /// Fails if the row is free, and no larger token is left for it.
    pub(crate) fn check_tokens(&self) -> Result<()> {
        let is_used_up = self.ends_in().is_none() && self.token.get() >= FencingToken::MAX_COUNTED;
        if is_used_up { Err(Error::tokens_used_up()) } else { Ok(()) }
    }

    /// The refusal for a claim of this owner; `None` if the row is free or held by this owner.
    pub(crate) fn busy_for(&self, owner: OwnerId) -> Option<Busy> {
        self.ends_in().filter(|_| self.owner != Some(owner)).map(|left| Busy::new().with_end(left))
    }

    pub(crate) fn loss_of(owner: OwnerId, row: Option<&Self>) -> LossCause {
        match row {
            Some(row) if row.owner.is_some() && row.busy_for(owner).is_some() => LossCause::Taken,
            _ => LossCause::Gone,
        }
    }

    /// The holds, or the linger, as people see them; none of a free row, `None` if another program has written the readers.
    pub(crate) fn statuses(&self, name: &LockName) -> Option<Vec<LockStatus>> {
        if self.ends_in().is_none() {
            return Some(Vec::new());
        }
        if self.owner == Some(READERS) {
            let readers = self.live_sharers()?.readers;
            return Some(readers.iter().map(|reader| reader.status(name, self.now)).collect());
        }
        let mut status = LockStatus::new(name.clone());
        status.ends_in = self.ends_in();
        status.token = Some(self.token);
        status.acquired_at = SystemTime::UNIX_EPOCH.checked_add(micros(self.acquired_at));
        status.owner = self.owner;
        if self.owner.is_some() {
            status.holder = HolderInfo::from_json(&self.holder);
        }
        Some(vec![status])
    }
}

/// A time in microseconds; zero for a negative one.
pub(super) fn micros(time: i64) -> Duration {
    Duration::from_micros(u64::try_from(time).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: OwnerId = OwnerId::from_u128(1);
    const OTHER: OwnerId = OwnerId::from_u128(2);
    const ENDS_IN: Duration = Duration::from_secs(3);

    /// A row of this owner, whose lease or linger ends at 3 s.
    fn row(owner: Option<OwnerId>, now: i64) -> LeaseRow {
        LeaseRow {
            stored_name: "shop/a".to_owned(),
            owner,
            token: FencingToken::new(7),
            ends_at: 3_000_000,
            acquired_at: 0,
            holder: r#"{"user":"ada","pid":1}"#.to_owned(),
            sharers: String::new(),
            now,
            unix_now: 0,
            version: Vec::new(),
        }
    }

    #[test]
    fn lease_of_another_owner_and_linger_are_busy() {
        let ends = |row: LeaseRow, owner| row.busy_for(owner).map(|busy| busy.ends_in);
        assert_eq!(ends(row(Some(OTHER), 0), MINE), Some(Some(ENDS_IN)));
        assert_eq!(ends(row(Some(OTHER), 0), OTHER), None);
        assert_eq!(ends(row(None, 0), OTHER), Some(Some(ENDS_IN)));
        assert_eq!(ends(row(Some(OTHER), 3_000_000), MINE), None);
        assert_eq!(LeaseRow::loss_of(MINE, Some(&row(Some(OTHER), 0))), LossCause::Taken);
        assert_eq!(LeaseRow::loss_of(MINE, Some(&row(None, 0))), LossCause::Gone, "a linger is no hold");
        assert_eq!(LeaseRow::loss_of(MINE, None), LossCause::Gone);
    }

    #[test]
    fn status_of_a_lingering_row_has_no_owner_and_a_free_row_has_no_status() {
        let name = LockName::new("a").unwrap();
        let held = row(Some(OTHER), 0).statuses(&name).unwrap().remove(0);
        assert_eq!((held.name.as_str(), held.owner), ("a", Some(OTHER)));
        assert_eq!(held.holder.user, "ada");
        let lingering = row(None, 0).statuses(&name).unwrap().remove(0);
        assert_eq!(lingering.owner, None);
        assert_eq!(lingering.holder, HolderInfo::default());
        assert_eq!(lingering.ends_in, Some(ENDS_IN));
        assert!(row(Some(OTHER), 3_000_000).statuses(&name).unwrap().is_empty());
    }
}
