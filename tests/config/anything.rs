//! Whatever is written, loading ends without a panic, and its error is one line.

use crate::scene::Scene;
use proptest::prelude::*;

/// Lines that look like a configuration, so that more than the parser is reached.
fn lines() -> impl Strategy<Value = String> {
    let key = "(default|defaults|profile|profile\\.p|url|ttl|wait|prefix|password_env|tls|timeout|'a b'|[a-z.]{0,5})";
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
    let scene = Scene::new();
    scene.write("etc.toml", text);
    match scene.sources().load() {
        Ok(config) => assert!(!config.show().is_empty()),
        Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
    }
}

proptest! {
    #[test]
    fn any_lines_may_be_written(text in lines()) {
        check(text);
    }

    #[test]
    fn any_text_may_be_written(text in "\\PC{0,60}|[\\x00-\\x7f]{0,60}") {
        check(text);
    }

    #[test]
    fn any_bytes_may_be_written(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        check(bytes);
    }
}
