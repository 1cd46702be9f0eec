//! T: shared locks.

mod exclusion;
pub(super) mod modes;
mod order;
mod records;
mod waiting;

use crate::cases::table::CaseTable;

pub(super) const TABLES: &[CaseTable] = &[exclusion::CASES, order::CASES, records::CASES, waiting::CASES];
