use leasehold_core::{
    Busy, Error, ErrorKind, FencingToken, HolderInfo, LockName, LockStatus, Namespace, OwnerId,
};
use std::fmt;
use std::time::{Duration, SystemTime};

/// A row of the table, as it was read.
#[derive(Debug)]
pub(crate) struct LeaseRow {
    /// The name under which the store knows the lock: with the namespace in front.
    pub(crate) stored_name: String,
    /// The owner of the last grant.
    pub(crate) owner: OwnerId,
    /// The token of the last grant.
    pub(crate) token: FencingToken,
    pub(crate) state: RowState,
    /// The owner's description of itself, as JSON.
    pub(crate) holder: String,
    pub(crate) acquired_at: Option<SystemTime>,
}

/// The state of a row when it was read, by the clock on which leases are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    /// Any claim may take it.
    Free,
    /// Its owner holds it.
    Held { ends_in: Duration },
    /// It was released, and other owners are kept out until its linger ends.
    Lingering { ends_in: Duration },
}

/// A row that another program has written under the name of a lock. Lists leave it out; until it ends, no claim is granted it.
pub(crate) fn foreign_row(name: &LockName, table: &dyn fmt::Display) -> Error {
    let message = format!("the row of {name:?} in {table} does not read as one of ours");
    Error::new(ErrorKind::Misconfigured, message)
        .with_help("look at who else writes to the table; if nobody needs the row, delete it")
}

impl LeaseRow {
    /// The refusal for a claim of this owner; `None` if the row is free or held by this owner.
    pub(crate) fn busy_for(&self, owner: OwnerId) -> Option<Busy> {
        match self.state {
            RowState::Held { ends_in } if self.owner != owner => Some(Busy::new().with_end(ends_in)),
            RowState::Lingering { ends_in } => Some(Busy::new().with_end(ends_in)),
            _ => None,
        }
    }

    pub(crate) fn is_held_by_another(&self, owner: OwnerId) -> bool {
        matches!(self.state, RowState::Held { .. }) && self.owner != owner
    }

    /// The row as people see it; `None` if it is free, or of another namespace.
    pub(crate) fn status(&self, namespace: &Namespace) -> Option<LockStatus> {
        let mut status = LockStatus::new(namespace.name(&self.stored_name)?);
        status.ends_in = Some(match self.state {
            RowState::Free => return None,
            RowState::Held { ends_in } | RowState::Lingering { ends_in } => ends_in,
        });
        status.token = Some(self.token);
        status.acquired_at = self.acquired_at;
        if matches!(self.state, RowState::Held { .. }) {
            status.owner = Some(self.owner);
            status.holder = HolderInfo::from_json(&self.holder);
        }
        Some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: OwnerId = OwnerId::from_u128(1);
    const OTHER: OwnerId = OwnerId::from_u128(2);
    const ENDS_IN: Duration = Duration::from_secs(3);

    fn row(state: RowState) -> LeaseRow {
        LeaseRow {
            stored_name: "shop/a".to_owned(),
            owner: OTHER,
            token: FencingToken::new(7),
            state,
            holder: r#"{"user":"ada","pid":1}"#.to_owned(),
            acquired_at: None,
        }
    }

    #[test]
    fn lease_of_another_owner_and_linger_are_busy() {
        let ends = |row: LeaseRow, owner| row.busy_for(owner).map(|busy| busy.ends_in);
        let held = RowState::Held { ends_in: ENDS_IN };
        let lingering = RowState::Lingering { ends_in: ENDS_IN };
        assert_eq!(ends(row(held), MINE), Some(Some(ENDS_IN)));
        assert_eq!(ends(row(held), OTHER), None);
        assert_eq!(ends(row(lingering), OTHER), Some(Some(ENDS_IN)));
        assert_eq!(ends(row(RowState::Free), MINE), None);
    }

    #[test]
    fn status_of_a_lingering_row_has_no_owner_and_a_free_row_has_no_status() {
        let shop = Namespace::new("shop/").unwrap();
        let held = row(RowState::Held { ends_in: ENDS_IN }).status(&shop).unwrap();
        assert_eq!((held.name.as_str(), held.owner), ("a", Some(OTHER)));
        assert_eq!(held.holder.user, "ada");
        let lingering = row(RowState::Lingering { ends_in: ENDS_IN }).status(&shop).unwrap();
        assert_eq!(lingering.owner, None);
        assert_eq!(lingering.holder, HolderInfo::default());
        assert_eq!(lingering.ends_in, Some(ENDS_IN));
        assert!(row(RowState::Free).status(&shop).is_none());
        let elsewhere = Namespace::new("other/").unwrap();
        assert!(row(RowState::Held { ends_in: ENDS_IN }).status(&elsewhere).is_none());
    }
}
