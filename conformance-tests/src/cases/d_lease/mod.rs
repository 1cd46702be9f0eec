//! D: how long a hold lasts, what keeps it going, and what its holder can choose of that.

mod expiry;
mod length;
mod renewal;

use crate::case::Case;

pub(super) const TABLES: &[&[Case]] = &[renewal::CASES, expiry::CASES, length::CASES];
