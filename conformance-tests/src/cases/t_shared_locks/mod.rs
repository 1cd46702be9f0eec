//! T: shared locks.

pub(super) mod exclusion;
pub(super) mod records;

use crate::case::Case;

pub(super) const TABLES: &[&[Case]] = &[exclusion::CASES, records::CASES];
