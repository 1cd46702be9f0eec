//! D: how long a hold lasts, what keeps it going, and what its holder can choose of that.

pub(super) mod length;
pub(super) mod limits;
pub(super) mod renewal;

use crate::case::Case;

pub(super) const TABLES: &[&[Case]] = &[length::CASES, limits::CASES, renewal::CASES];
