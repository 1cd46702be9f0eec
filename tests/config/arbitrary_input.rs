//! Loading any input ends without a panic, and its error is one line.

use crate::host::TestHost;
use proptest::prelude::*;

/// Lines that look like a configuration, so that more than the parser is reached.
fn lines() -> impl Strategy<Value = String> {
    let key = "(default|defaults|require_store|profile|profile\\.p|url|ttl|wait|prefix|password_env|tls|timeout|'a b'|[a-z.]{0,5})";
    let value = "('p'|'30'|'30s'|'memory:'|'redis://:x@h'|\\$\\{A\\}|'\\$\\{A\\}'|'\\$\\{|[0-9]{1,3}|true|\\[\\]|\\{ a = 1 \\}|[ -~é]{0,12})";
    let line = prop_oneof![
        (key, value).prop_map(|(key, value)| format!("{key} = {value}")),
        key.prop_map(|key| format!("[{key}]")),
        Just("[profile.p]".to_owned()),
        Just("default = 'p'".to_owned()),
        "[ -~\t]{0,20}",
    ];
    proptest::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

fn check(text: impl AsRef<[u8]>) {
    let host = TestHost::new();
    host.write("etc.toml", text);
    match host.sources().load() {
        Ok(config) => assert!(!config.show().is_empty()),
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    }
}

proptest! {
    #[test]
    fn lines_of_a_configuration_are_read_or_refused(text in lines()) {
        check(text);
    }

    #[test]
    fn arbitrary_text_is_read_or_refused(text in "\\PC{0,60}|[\\x00-\\x7f]{0,60}") {
        check(text);
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        check(bytes);
    }
}
