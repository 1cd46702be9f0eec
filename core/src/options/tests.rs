use super::*;

fn problem(options: &AcquireOptions) -> String {
    options.check().unwrap_err().to_string()
}

#[test]
fn ttl_out_of_range_is_refused_with_the_limit() {
    let with = |ttl| AcquireOptions::new().with_ttl(ttl);
    assert_eq!(problem(&with(Duration::ZERO)), "invalid ttl: 0ns, at least 50ms");
    assert_eq!(problem(&with(Duration::from_nanos(1))), "invalid ttl: 1ns, at least 50ms");
    assert_eq!(problem(&with(Duration::from_secs(86_401))), "invalid ttl: 86401s, at most 86400s");
    assert!(problem(&with(Duration::MAX)).ends_with("at most 86400s"));
    assert!(with(AcquireOptions::MIN_TTL).check().is_ok());
    assert!(with(AcquireOptions::MAX_TTL).check().is_ok());
}

#[test]
fn ttl_is_rounded_up_to_whole_milliseconds() {
    assert_eq!(whole_millis(Duration::from_micros(60_001)), Duration::from_millis(61));
    assert_eq!(whole_millis(Duration::from_millis(61)), Duration::from_millis(61));
}

#[test]
fn lease_is_renewed_unless_it_is_fixed() {
    assert!(AcquireOptions::new().is_renewed());
    assert!(!AcquireOptions::new().with_fixed_lease().is_renewed());
}

#[test]
fn limits_of_the_hold_that_contradict_are_refused() {
    let options = AcquireOptions::new();
    assert_eq!(problem(&options.clone().with_max_hold(Duration::ZERO)), "invalid max_hold: it is zero");
    let crossed =
        options.clone().with_max_hold(Duration::from_secs(1)).with_hold_at_least(Duration::from_secs(2));
    assert_eq!(problem(&crossed), "invalid hold_at_least: 2s is longer than max_hold 1s");
    let too_long = options.clone().with_hold_at_least(Duration::from_secs(86_401));
    assert_eq!(problem(&too_long), "invalid hold_at_least: 86401s, limit 86400s");
    let chatty = options.with_holder(&HolderInfo::default().with_doing("x".repeat(2000)));
    assert_eq!(problem(&chatty), "invalid holder info: 2020 bytes, limit 1024");
}

#[test]
fn longest_wait_is_for_ever_and_shortest_is_one_attempt() {
    assert_eq!(Wait::from(Duration::MAX), Wait::Forever);
    assert_eq!(Wait::from(Duration::ZERO), Wait::No);
}

#[test]
fn wait_is_read_from_text() {
    assert_eq!("forever".parse::<Wait>().unwrap(), Wait::Forever);
    assert_eq!("no".parse::<Wait>().unwrap(), Wait::No);
    assert_eq!("0".parse::<Wait>().unwrap(), Wait::No);
    assert_eq!("0s".parse::<Wait>().unwrap(), Wait::No);
    assert_eq!("1m 30s".parse::<Wait>().unwrap(), Wait::UpTo(Duration::from_secs(90)));
    for text in ["", "5", "for ever", "-1s", "None"] {
        let error = text.parse::<Wait>().unwrap_err();
        assert!(error.to_string().starts_with("invalid wait: "), "{error}");
        assert_eq!(error.help(), Some("write forever, 0, or a time like 30s"));
    }
}
