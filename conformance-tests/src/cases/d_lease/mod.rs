//! D: how long a hold lasts, what keeps it going, and what its holder can choose of that.

mod expiry;
mod length;
mod renewal;

use crate::cases::table::CaseTable;
use std::time::Duration;

pub(super) const TABLES: &[CaseTable] = &[renewal::CASES, expiry::CASES, length::CASES];

/// A time of at least this length that is a tenth of a second short of whole seconds: rounded down, it is shorter by most of one.
fn almost_whole_seconds(least: Duration) -> Duration {
    const TENTH: Duration = Duration::from_millis(100);
    Duration::from_secs((least + TENTH).as_secs() + 1) - TENTH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_no_shorter_than_wanted_and_a_tenth_of_a_second_short_of_whole_seconds() {
        for (least, time) in [(1_350, 1_900), (1_899, 1_900), (1_950, 2_900), (2_000, 2_900), (4_050, 4_900)]
        {
            assert_eq!(almost_whole_seconds(Duration::from_millis(least)), Duration::from_millis(time));
        }
    }
}
