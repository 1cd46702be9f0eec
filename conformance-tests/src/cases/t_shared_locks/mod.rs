//! T: shared locks.

mod exclusion;
mod modes;
mod order;
mod records;

use crate::cases::table::CaseTable;

pub(super) const TABLES: &[CaseTable] = &[exclusion::CASES, order::CASES, records::CASES];
