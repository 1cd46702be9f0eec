//! D: how long a hold lasts, what keeps it going, and what its holder can choose of that.

mod expiry;
mod length;
mod renewal;

use crate::cases::table::CaseTable;

pub(super) const TABLES: &[CaseTable] = &[renewal::CASES, expiry::CASES, length::CASES];
