//! C: only the owner releases and renews; what people can see and do.

pub(super) mod holder;
pub(super) mod release;

use crate::case::Case;

pub(super) const TABLES: &[&[Case]] = &[holder::CASES, release::CASES];
