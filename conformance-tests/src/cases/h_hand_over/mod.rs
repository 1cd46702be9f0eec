//! H: from one holder to the next, and in which order.

pub(super) mod order;
pub(super) mod wake_up;

use crate::case::Case;

pub(super) const TABLES: &[&[Case]] = &[order::CASES, wake_up::CASES];
