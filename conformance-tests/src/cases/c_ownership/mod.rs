//! C: only the owner releases and renews; what people can see and do.

mod holder;
mod release;
mod renewal;

use crate::cases::table::CaseTable;

pub(super) const TABLES: &[CaseTable] = &[release::CASES, renewal::CASES, holder::CASES];
