//! C: only the owner releases (`release.rs`) and renews (`renewal.rs`); what people can see of a
//! holder (`holder.rs`), and what operators do to holds (`administration.rs`) and to names (`names.rs`).

pub(super) mod administration;
mod holder;
pub(super) mod names;
mod release;
mod renewal;

use crate::cases::table::CaseTable;
pub(super) use renewal::with_a_renewal_on_the_wire;

pub(super) const TABLES: &[CaseTable] =
    &[release::CASES, renewal::CASES, holder::CASES, administration::CASES, names::CASES];
