//! C: only the owner releases (`release.rs`) and renews (`renewal.rs`); what people can see of a holder and do to it (`holder.rs`).

mod holder;
mod release;
mod renewal;

use crate::cases::table::CaseTable;
pub(super) use renewal::with_a_renewal_on_the_wire;

pub(super) const TABLES: &[CaseTable] = &[release::CASES, renewal::CASES, holder::CASES];
