//! T: shared locks.

mod exclusion;
mod modes;
mod order;
mod records;

use crate::case::Case;

pub(super) const TABLES: &[&[Case]] = &[exclusion::CASES, order::CASES, records::CASES];
