//! H: from one holder to the next, and in which order.

mod order;
mod wake_up;

use crate::cases::table::CaseTable;

pub(super) const TABLES: &[CaseTable] = &[wake_up::CASES, order::CASES];
