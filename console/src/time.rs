use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From the beginning of 1970 to that of the year 10000.
const TO_10000: Duration = Duration::from_secs(253_402_300_800);
const NO_DATE: &str = "outside the years 1970 to 9999";

/// A duration for people: two places that matter, the largest unit first. A time that is a round number of a unit, as
/// people write them, has one place.
pub fn brief(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.subsec_millis() == 0 => "0s".to_owned(),
        0 => format!("{}ms", time.subsec_millis()),
        1..10 => format!("{seconds}.{}s", time.subsec_millis() / 100),
        10..120 => format!("{seconds}s"),
        120..7_200 if !seconds.is_multiple_of(3_600) => places(seconds, 60, "m", "s"),
        120..172_800 => places(seconds / 60, 60, "h", "m"),
        _ => places(seconds / 3_600, 24, "d", "h"),
    }
}

fn places(time: u64, unit: u64, larger: &str, smaller: &str) -> String {
    match (time / unit, time % unit) {
        (whole, 0) => format!("{whole}{larger}"),
        (whole, rest) => format!("{whole}{larger} {rest}{smaller}"),
    }
}

/// From `since` to now. The two clocks may differ: what seems to lie ahead is now.
pub fn ago(since: SystemTime, now: SystemTime) -> String {
    brief(now.duration_since(since).unwrap_or_default())
}

/// A moment, in UTC. Another program may have written any moment into a store, and there are some that nobody can format.
pub fn timestamp(moment: SystemTime) -> String {
    let since_1970 = moment.duration_since(UNIX_EPOCH);
    if since_1970.is_ok_and(|time| time < TO_10000) {
        humantime::format_rfc3339_seconds(moment).to_string()
    } else {
        NO_DATE.to_owned()
    }
}

/// The moment after this time from now, in UTC.
pub(crate) fn timestamp_after(time: Duration) -> String {
    SystemTime::now().checked_add(time).map_or_else(|| NO_DATE.to_owned(), timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_shown_in_two_places_at_most() {
        let cases = [
            (0, "0s"),
            (350, "350ms"),
            (4_000, "4.0s"),
            (9_999, "9.9s"),
            (48_000, "48s"),
            (119_000, "119s"),
            (120_000, "2m"),
            (200_000, "3m 20s"),
            (3_600_000, "1h"),
            (3_660_000, "61m"),
            (7_500_000, "2h 5m"),
            (90_000_000, "25h"),
            (172_800_000, "2d"),
            (180_000_000, "2d 2h"),
        ];
        for (millis, expected) in cases {
            assert_eq!(brief(Duration::from_millis(millis)), expected);
        }
        assert_eq!(ago(SystemTime::now() + Duration::from_secs(9), SystemTime::now()), "0s");
    }

    #[test]
    fn moment_outside_the_calendar_is_shown_without_a_date() {
        let second = Duration::from_secs(1);
        assert_eq!(timestamp(UNIX_EPOCH), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(UNIX_EPOCH + TO_10000 - second), "9999-12-31T23:59:59Z");
        for moment in [UNIX_EPOCH - second, UNIX_EPOCH + TO_10000] {
            assert_eq!(timestamp(moment), NO_DATE);
        }
        assert_eq!(timestamp_after(Duration::MAX), NO_DATE);
    }
}
