//! H: from one holder to the next, and in which order.

mod order;
mod wake_up;

use crate::case::Case;

pub(super) const TABLES: &[&[Case]] = &[wake_up::CASES, order::CASES];
