use crate::time::timestamp_after;
use crate::{ago, brief, safe, shell_word, timestamp};
use leasehold::LockName;
use leasehold::admin::LockStatus;
use leasehold::semantics::HoldKind;
use std::time::SystemTime;

/// The name for people: a slot is one of its semaphore, by the name that was given.
pub fn shown_name(name: &LockName) -> String {
    match (name.semaphore(), name.slot()) {
        (Some(semaphore), Some(slot)) => format!("slot {slot} of {semaphore:?}"),
        _ => format!("{name:?}"),
    }
}

/// The holder, in one line: `"demo" is held by ada@laptop:48211 (sleep 30) for 4.0s; its lease ends in 26s`.
pub fn sentence(lock: &LockStatus) -> String {
    if let Some(ends_in) = lock.ends_in.filter(|_| lock.is_released()) {
        let (name, left) = (shown_name(&lock.name), brief(ends_in));
        return format!("{name} is released, and others are kept out for {left} more");
    }
    let shared = if lock.mode.is_shared() { " shared" } else { "" };
    let mut sentence = format!("{} is held{shared} by {}", shown_name(&lock.name), holder(lock));
    if let Some(since) = lock.acquired_at {
        sentence += &format!(" for {}", ago(since, SystemTime::now()));
    }
    match lock.ends_in {
        Some(ends_in) => sentence + &format!("; its lease ends in {}", brief(ends_in)),
        None => format!("{sentence}; it {}", end(lock.hold)),
    }
}

/// The same for a line that may be cut at its end: what may be long comes last.
pub fn short_sentence(lock: &LockStatus) -> String {
    let Some(since) = lock.acquired_at.filter(|_| !lock.is_released()) else { return sentence(lock) };
    let shared = if lock.mode.is_shared() { " shared" } else { "" };
    let (name, since) = (shown_name(&lock.name), ago(since, SystemTime::now()));
    format!("{name} is held{shared} for {since} by {}", holder(lock))
}

/// What is known of the holder, as labelled lines.
pub fn block(lock: &LockStatus) -> Vec<(&'static str, String)> {
    let mut lines = vec![("holder", if lock.is_released() { "nobody".to_owned() } else { holder(lock) })];
    if let Some(since) = lock.acquired_at.filter(|_| !lock.is_released()) {
        let for_time = ago(since, SystemTime::now());
        lines.push(("since", format!("{} ({for_time})", timestamp(since))));
    }
    lines.push((
        "until",
        match lock.ends_in {
            Some(ends_in) => {
                let until = timestamp_after(ends_in);
                let why = match lock.is_released() {
                    true => ": its last holder wanted it held for a time at least",
                    false => ", unless it is renewed",
                };
                format!("{until} (in {}){why}", brief(ends_in))
            }
            None => format!("it {}, or is released", end(lock.hold)),
        },
    ));
    let labels = &lock.holder.labels;
    if !labels.is_empty() {
        let pairs: Vec<String> = labels.iter().map(|(key, value)| safe(&format!("{key}={value}"))).collect();
        lines.push(("info", pairs.join(" ")));
    }
    if let Some(token) = lock.token {
        lines.push(("token", token.to_string()));
    }
    lines
}

/// What somebody can do who wants a lock that is held.
pub(crate) fn help(lock: &LockStatus, store: &str) -> Vec<(&'static str, String)> {
    let name = shell_word(lock.name.as_str());
    let token = lock.token.map(|token| format!(" --if-token {token}")).unwrap_or_default();
    let to_free_it =
        if lock.is_released() { "to let others in now" } else { "if its holder is gone for good" };
    vec![
        ("help", format!("wait for it with -w 60, or look at it: leasehold inspect{store} -- {name}")),
        ("help", format!("{to_free_it}: leasehold release{store} --force{token} -- {name}")),
    ]
}

/// What ends a hold that is on no lease.
fn end(hold: HoldKind) -> &'static str {
    match hold {
        HoldKind::Session => "ends with its holder's session",
        HoldKind::Connection => "ends with its holder's connection",
        _ => "never ends by itself",
    }
}

fn holder(lock: &LockStatus) -> String {
    let who = safe(&lock.holder.to_string());
    if lock.holder.doing.is_empty() {
        return who;
    }
    format!("{who} ({})", safe(&lock.holder.doing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold::{FencingToken, HolderInfo, LockName};
    use std::time::Duration;

    fn lock() -> LockStatus {
        let mut lock = LockStatus::new(LockName::new("demo").unwrap());
        lock.holder = HolderInfo::default().with_doing("sleep 30").with_label("version", "1.4");
        lock.holder.user = "ada".to_owned();
        lock.holder.host = "laptop".to_owned();
        lock.holder.pid = 48211;
        lock.ends_in = Some(Duration::from_secs(26));
        lock
    }

    #[test]
    fn holder_is_shown_in_one_line() {
        let mut lock = lock();
        lock.acquired_at = Some(SystemTime::now() - Duration::from_secs(4));
        let expected = "\"demo\" is held by ada@laptop:48211 (sleep 30) for 4.0s; its lease ends in 26s";
        assert_eq!(sentence(&lock), expected);
        assert_eq!(short_sentence(&lock), "\"demo\" is held for 4.0s by ada@laptop:48211 (sleep 30)");
    }

    #[test]
    fn released_lock_is_shown_without_a_holder() {
        let mut released = lock();
        released.token = Some(FencingToken::new(7));
        assert_eq!(sentence(&released), "\"demo\" is released, and others are kept out for 26s more");
        let lines = block(&released);
        assert_eq!(lines[0], ("holder", "nobody".to_owned()));
        assert!(lines[1].1.ends_with("its last holder wanted it held for a time at least"), "{lines:?}");
        assert!(help(&released, "")[1].1.starts_with("to let others in now"));
    }

    #[test]
    fn unknown_details_are_left_out() {
        let mut lock = LockStatus::new(LockName::new("demo").unwrap());
        assert_eq!(sentence(&lock), "\"demo\" is held by an unnamed holder; it never ends by itself");
        lock.holder = HolderInfo::from_json("by \u{1b}[2J hand");
        assert_eq!(
            sentence(&lock),
            "\"demo\" is held by an unnamed holder (by \\u{1b}[2J hand); it never ends by itself"
        );
    }

    #[test]
    fn hold_without_a_lease_shows_how_it_ends() {
        let mut lock = LockStatus::new(LockName::new("demo").unwrap());
        lock.hold = HoldKind::Session;
        assert_eq!(
            sentence(&lock),
            "\"demo\" is held by an unnamed holder; it ends with its holder's session"
        );
        assert_eq!(
            block(&lock)[1],
            ("until", "it ends with its holder's session, or is released".to_owned())
        );
    }

    #[test]
    fn block_has_a_line_for_each_known_detail() {
        let lines = block(&lock());
        let labels: Vec<&str> = lines.iter().map(|(label, _)| *label).collect();
        assert_eq!(labels, ["holder", "until", "info"]);
        assert_eq!(lines[2].1, "version=1.4");
    }
}
