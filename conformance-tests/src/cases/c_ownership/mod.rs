//! C: only the owner releases and renews; what people can see and do.

mod holder;
mod release;
mod renewal;

use crate::case::Case;

pub(super) const TABLES: &[&[Case]] = &[release::CASES, renewal::CASES, holder::CASES];
