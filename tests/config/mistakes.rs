//! Every mistake in a file has its exact error: the place, the problem, and the way out.

use crate::host::TestHost;

/// The error of a system file with this text, if the environment names a store.
fn of_file(text: &str) -> String {
    let mut host = TestHost::with_system_file(text);
    host.set("LEASEHOLD_URL", "memory:");
    host.problem()
}

/// The error of a profile with these lines, the first of which is line 3.
fn of_profile(lines: &str) -> String {
    TestHost::with_system_file(&format!("default = 'p'\n[profile.p]\n{lines}\n")).problem()
}

fn check(cases: &[(&str, &str)], of: impl Fn(&str) -> String) {
    for (text, expected) in cases {
        assert_eq!(of(text), format!("Misconfigured: ~/etc.toml:{expected}"), "{text}");
    }
}

#[test]
fn unknown_key_is_refused_with_the_nearest() {
    let defaults = "known: hold_at_least, max_hold, prefix, ttl, wait";
    check(
        &[
            (
                "defualt = 'p'",
                "1: unknown key \"defualt\"; did you mean \"default\"? known: default, defaults, profile, require_store",
            ),
            (
                "requirestore = true",
                "1: unknown key \"requirestore\"; did you mean \"require_store\"? known: default, defaults, profile, require_store",
            ),
            (
                "local_queue = 4",
                "1: unknown key \"local_queue\"; known: default, defaults, profile, require_store",
            ),
            ("\n\ncolour = 1", "3: unknown key \"colour\"; known: default, defaults, profile, require_store"),
            ("url = 'memory:'", "1: unknown key \"url\"; put it under a [profile.NAME]"),
            ("ttl = '1s'", "1: unknown key \"ttl\"; put it under [defaults], or under a [profile.NAME]"),
            (
                "[defaults]\n\nttll = '1s'",
                &format!("3: unknown key \"ttll\" in [defaults]; did you mean \"ttl\"? {defaults}"),
            ),
            ("[defaults]\nurl = 'memory:'", &format!("2: unknown key \"url\" in [defaults]; {defaults}")),
            ("[default]\nttl = '1s'", "1: default is a table; call the table [defaults]"),
        ],
        of_file,
    );
}

#[test]
fn value_of_the_wrong_kind_is_refused() {
    check(
        &[
            ("default = 5", "1: default is an integer; write it in quotes: default = \"prod\""),
            ("[defaults]\nttl = 30", "2: ttl is an integer; write it in quotes: ttl = \"30s\""),
            ("[defaults]\nwait = false", "2: wait is a boolean; write it in quotes: wait = \"10s\""),
            ("defaults = 1.5", "1: defaults is a float; make it a table"),
            ("profile = 'p'", "1: profile is a string; make it a table"),
            ("[[profile]]\nurl = 'memory:'", "1: profile is an array; make it a table"),
            ("[profile]\np = 'memory:'", "2: profile.p is a string; make it a table"),
            ("require_store = 2", "1: invalid require_store: \"2\"; write true or false"),
            ("[require_store]", "1: require_store is a table; write true or false"),
            (
                "[profile.p]\nurl = ['memory:']",
                "2: url is an array; write it in quotes: url = \"redis://host:6379/0\"",
            ),
            (
                "[profile.p]\nnodes = ['a', 'b']",
                "2: nodes is an array; make it a string, a number or a table",
            ),
            ("[profile.p]\nsince = 2020-01-01", "2: since is a date; make it a string, a number or a table"),
        ],
        of_file,
    );
}

#[test]
fn value_out_of_range_is_refused() {
    let long = format!("[defaults]\nprefix = '{}'", "x".repeat(129));
    check(
        &[
            ("[defaults]\nttl = '30'", "2: invalid ttl: \"30\" has no unit; write 30s or 30ms"),
            ("[defaults]\nttl = '49ms'", "2: invalid ttl: 49ms, at least 50ms; lengthen it"),
            (
                "[defaults]\nttl = '25h'",
                "2: invalid ttl: 90000s, at most 86400s; shorten it: a lease that is renewed need not outlast the work",
            ),
            (
                "[defaults]\nwait = 'never'",
                "2: invalid wait: \"never\": expected number at 0; write forever, 0, or a time like 30s",
            ),
            (
                "[defaults]\nwait = '10'",
                "2: invalid wait: \"10\" has no unit; write forever, 0, or a time like 30s",
            ),
            (
                "[defaults]\nmax_hold = '0s'",
                "2: invalid max_hold: it is zero; give it a time, or leave it out",
            ),
            (
                "[defaults]\nhold_at_least = '25h'",
                "2: invalid hold_at_least: 90000s, limit 86400s; shorten it",
            ),
            (
                "[defaults]\nmax_hold = '1s'\nhold_at_least = '2s'",
                "3: invalid hold_at_least: 2s is longer than max_hold 1s; make it the shorter of the two",
            ),
            (&long, "2: invalid prefix: 129 bytes, limit 128; shorten it"),
            (
                "[defaults]\nprefix = \"a\\nb\"",
                "2: invalid prefix: it has a control character: \"a\\nb\"; take it out",
            ),
        ],
        of_file,
    );
}

#[test]
fn text_that_is_not_toml_is_refused() {
    let fix = "fix this line, or the one before it";
    check(
        &[
            ("default = 'p'\ndefault = 'q'", "2: default is there twice; leave one of them out"),
            ("[profile.p]\n\n[profile.p]", "3: p is there twice; leave one of them out"),
            (
                "[profile.p]\ntls_ca = 'a'\ntls = { ca = 'b' }",
                "3: tls_ca is there twice; leave one of them out",
            ),
            (
                "[defaults]\nttl = 30s",
                &format!("2: it is not TOML: string values must be quoted, expected literal string; {fix}"),
            ),
            (
                "default = p",
                &format!("1: it is not TOML: string values must be quoted, expected literal string; {fix}"),
            ),
            ("default = 'p", &format!("1: it is not TOML: invalid literal string, expected `'`; {fix}")),
        ],
        of_file,
    );
}

#[test]
fn unusable_profile_is_refused() {
    let given_twice = "leave one of them out";
    check(
        &[
            ("ttl = '1s'", "2: [profile.p] has no url; give it one: url = \"redis://host:6379/0\""),
            (
                "url = 'redis'",
                "3: invalid store URL: it has no scheme; write it like redis://host:6379/0 or sqlite:/path/to/file",
            ),
            (
                "url = 'ada:hunter2@h:6379'",
                "3: invalid store URL: it has no scheme; write it like redis://user:password@host:6379/0, or with ./ in front of a file",
            ),
            (
                "url = 'redis://h?timeout=1s?password=hunter2'",
                "3: invalid store URL: it has more than one ?; put an & between parameters, and write a plain ? as %3F",
            ),
            (
                "url = 'redis://${HOST}'",
                "3: invalid url: the environment has no variable HOST; set it, or write ${HOST:-default}",
            ),
            (
                "url = 'redis://h'\ntimeout = '${T'",
                "4: invalid timeout: it has a ${ that no } closes; close it, or write $${ for a plain ${",
            ),
            (
                "url = 'redis://h?timeout=1s'\ntimeout = '2s'",
                &format!("4: invalid store URL: \"timeout\" is given twice; {given_twice}"),
            ),
            (
                "url = 'redis://h'\npassword = 'x'",
                "4: a password does not stand here; name its file with password_file, or its variable with password_env",
            ),
            (
                "url = 'redis://h'\npassword_file = '/f'\npassword_env = 'PW'",
                &format!("4: invalid password_file: there is a password_env beside it; {given_twice}"),
            ),
            (
                "url = 'redis://:x@h'\npassword_env = 'HOME'",
                &format!(
                    "4: invalid store URL: it has a password, and another one is given beside it; {given_twice}"
                ),
            ),
        ],
        of_profile,
    );
}
