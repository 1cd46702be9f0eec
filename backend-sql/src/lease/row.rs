use super::Tokens;
use leasehold_core::{Busy, Error, ErrorKind, HolderInfo, LockName, LockStatus, Namespace, OwnerId};
use std::fmt;
use std::time::{Duration, SystemTime};

/// A row of the table, as it was read.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name under which the store knows the lock: with the namespace in front.
    pub(crate) stored_name: String,
    /// Who was granted it last.
    pub(crate) owner: OwnerId,
    /// Those of that grant.
    pub(crate) tokens: Tokens,
    pub(crate) standing: Standing,
    /// What that owner says of itself.
    pub(crate) holder: String,
    pub(crate) acquired_at: Option<SystemTime>,
}

/// How a row stood when it was read, by the clock on which leases are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody holds it, and anybody may take it.
    Free,
    /// Its owner holds it.
    Held { ends_in: Duration },
    /// Nobody holds it any more, and others are still kept out.
    Lingering { ends_in: Duration },
}

/// What somebody else has written into the table under the name of a lock. Lists pass over it; until it ends, nobody is granted it.
pub(crate) fn foreign_row(name: &LockName, table: &dyn fmt::Display) -> Error {
    let message = format!("the row of {name:?} in {table} does not read as one of ours");
    Error::new(ErrorKind::Misconfigured, message)
        .with_help("look at who else writes to the table; if nobody needs the row, delete it")
}

impl Row {
    /// What to tell a claim of this owner that cannot have the lock now; `None` if it may, or does.
    pub(crate) fn busy_for(&self, owner: OwnerId) -> Option<Busy> {
        match self.standing {
            Standing::Held { ends_in } if self.owner != owner => Some(Busy::new().with_end(ends_in)),
            Standing::Lingering { ends_in } => Some(Busy::new().with_end(ends_in)),
            _ => None,
        }
    }

    pub(crate) fn is_held_by_another(&self, owner: OwnerId) -> bool {
        matches!(self.standing, Standing::Held { .. }) && self.owner != owner
    }

    /// The row as people see it; `None` if it is free, or of another namespace.
    pub(crate) fn status(&self, namespace: &Namespace) -> Option<LockStatus> {
        let mut status = LockStatus::new(namespace.name(&self.stored_name)?);
        status.ends_in = Some(match self.standing {
            Standing::Free => return None,
            Standing::Held { ends_in } | Standing::Lingering { ends_in } => ends_in,
        });
        status.token = Some(self.tokens.first);
        status.acquired_at = self.acquired_at;
        if matches!(self.standing, Standing::Held { .. }) {
            status.owner = Some(self.owner);
            status.holder = HolderInfo::from_json(&self.holder);
        }
        Some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::FencingToken;

    const MINE: OwnerId = OwnerId::from_u128(1);
    const OTHER: OwnerId = OwnerId::from_u128(2);
    const ENDS_IN: Duration = Duration::from_secs(3);

    fn row(standing: Standing) -> Row {
        Row {
            stored_name: "shop/a".to_owned(),
            owner: OTHER,
            tokens: Tokens::of_row(FencingToken::new(7), 0),
            standing,
            holder: r#"{"user":"ada","pid":1}"#.to_owned(),
            acquired_at: None,
        }
    }

    #[test]
    fn only_a_lease_of_another_or_a_linger_is_busy() {
        let ends = |row: Row, owner| row.busy_for(owner).map(|busy| busy.ends_in);
        let held = Standing::Held { ends_in: ENDS_IN };
        let lingering = Standing::Lingering { ends_in: ENDS_IN };
        assert_eq!(ends(row(held), MINE), Some(Some(ENDS_IN)));
        assert_eq!(ends(row(held), OTHER), None);
        assert_eq!(ends(row(lingering), OTHER), Some(Some(ENDS_IN)));
        assert_eq!(ends(row(Standing::Free), MINE), None);
    }

    #[test]
    fn a_lingering_row_shows_nobody_and_a_free_one_nothing() {
        let shop = Namespace::new("shop/").unwrap();
        let held = row(Standing::Held { ends_in: ENDS_IN }).status(&shop).unwrap();
        assert_eq!((held.name.as_str(), held.owner), ("a", Some(OTHER)));
        assert_eq!(held.holder.user, "ada");
        let lingering = row(Standing::Lingering { ends_in: ENDS_IN }).status(&shop).unwrap();
        assert_eq!(lingering.owner, None);
        assert_eq!(lingering.holder, HolderInfo::default());
        assert_eq!(lingering.ends_in, Some(ENDS_IN));
        assert!(row(Standing::Free).status(&shop).is_none());
        let elsewhere = Namespace::new("other/").unwrap();
        assert!(row(Standing::Held { ends_in: ENDS_IN }).status(&elsewhere).is_none());
    }
}
