//! How locks are named and held, whatever the store: the keys that `[defaults]` and every profile may have.

use leasehold_core::{AcquireOptions, Error, Namespace, Result, Wait, parse_duration};
use std::time::Duration;

/// The values of these keys.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// `None`: what the store's scheme has by default.
    pub(super) prefix: Option<Namespace>,
    pub(super) ttl: Duration,
    pub(super) wait: Wait,
    pub(super) max_hold: Duration,
    pub(super) hold_at_least: Duration,
}

/// One of these keys: what it looks like, how it is read, and how it is shown.
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) example: &'static str,
    pub(super) read: fn(&mut Settings, &str) -> Result<()>,
    pub(super) show: fn(&Settings) -> Option<String>,
}

pub(super) const SETTINGS: [Setting; 5] = [
    Setting {
        key: "prefix",
        example: "shop/",
        read: |settings, text| Namespace::new(text).map(|prefix| settings.prefix = Some(prefix)),
        show: |settings| settings.prefix.as_ref().map(|prefix| prefix.prefix().to_owned()),
    },
    Setting {
        key: "ttl",
        example: "30s",
        read: |settings, text| read_ttl(text).map(|ttl| settings.ttl = ttl),
        show: |settings| Some(duration(settings.ttl)),
    },
    Setting {
        key: "wait",
        example: "10s",
        read: |settings, text| read_wait(text).map(|wait| settings.wait = wait),
        show: |settings| Some(show_wait(settings.wait)),
    },
    Setting {
        key: "max_hold",
        example: "2h",
        read: |settings, text| read_max_hold(text).map(|max_hold| settings.max_hold = max_hold),
        show: |settings| Some(show_max_hold(settings.max_hold)),
    },
    Setting {
        key: "hold_at_least",
        example: "1m",
        read: |settings, text| read_hold_at_least(text).map(|least| settings.hold_at_least = least),
        show: |settings| Some(duration(settings.hold_at_least)),
    },
];

impl Settings {
    pub(super) fn options(&self) -> AcquireOptions {
        AcquireOptions::new()
            .with_ttl(self.ttl)
            .with_wait(self.wait)
            .with_max_hold(self.max_hold)
            .with_hold_at_least(self.hold_at_least)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: None,
            ttl: AcquireOptions::DEFAULT_TTL,
            wait: Wait::Forever,
            max_hold: Duration::MAX,
            hold_at_least: Duration::ZERO,
        }
    }
}

/// The core refuses what is out of range when a lock is acquired; asked here, it can still be said which line is wrong.
fn in_range(options: AcquireOptions) -> Result<()> {
    options.checked().map(drop)
}

fn read_ttl(text: &str) -> Result<Duration> {
    let ttl = parse_duration("ttl", text)?;
    in_range(AcquireOptions::new().with_ttl(ttl)).map(|()| ttl)
}

fn read_wait(text: &str) -> Result<Wait> {
    match text.trim() {
        "forever" => Ok(Wait::Forever),
        "0" => Ok(Wait::No),
        // The core's help shows durations only.
        word if word.chars().all(|c| c.is_ascii_alphabetic()) => {
            Err(Error::invalid("wait", format_args!("{text:?}"), "write forever, 0, or a time such as 10s"))
        }
        time => parse_duration("wait", time).map(Wait::from),
    }
}

fn show_wait(wait: Wait) -> String {
    match wait {
        Wait::Forever => "forever".to_owned(),
        Wait::No => "0".to_owned(),
        Wait::UpTo(time) => duration(time),
        other => format!("{other:?}"),
    }
}

fn read_max_hold(text: &str) -> Result<Duration> {
    if text.trim() == "none" {
        return Ok(Duration::MAX);
    }
    let max_hold = parse_duration("max_hold", text)?;
    in_range(AcquireOptions::new().with_max_hold(max_hold)).map(|()| max_hold)
}

fn show_max_hold(max_hold: Duration) -> String {
    match max_hold {
        Duration::MAX => "none".to_owned(),
        time => duration(time),
    }
}

fn read_hold_at_least(text: &str) -> Result<Duration> {
    let least = parse_duration("hold_at_least", text)?;
    in_range(AcquireOptions::new().with_hold_at_least(least)).map(|()| least)
}

fn duration(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_written() {
        let texts = [
            ("prefix", "shop/"),
            ("ttl", "1m 30s"),
            ("wait", "forever"),
            ("wait", "0"),
            ("wait", "1m 30s"),
            ("max_hold", "none"),
            ("max_hold", "2h"),
            ("hold_at_least", "0s"),
            ("hold_at_least", "1day"),
        ];
        for (key, text) in texts {
            let setting = SETTINGS.iter().find(|setting| setting.key == key).unwrap();
            let mut settings = Settings::default();
            (setting.read)(&mut settings, text).unwrap();
            assert_eq!((setting.show)(&settings).as_deref(), Some(text), "{key}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_core() {
        let (ours, core) = (Settings::default().options(), AcquireOptions::new());
        assert_eq!(format!("{ours:?}"), format!("{core:?}"));
    }
}
