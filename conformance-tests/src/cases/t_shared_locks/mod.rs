//! T: shared locks.

mod beside_readers;
mod in_a_mode;
pub(super) mod modes;
mod order;
mod records;
pub(super) mod waiting;

use crate::cases::table::CaseTable;

pub(super) const TABLES: &[CaseTable] = &[
    order::CASES,
    records::CASES,
    waiting::CASES,
    beside_readers::CASES,
    in_a_mode::OF_READERS,
    in_a_mode::OF_WRITERS,
];
