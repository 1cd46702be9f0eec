//! Which source counts: each against the next weaker one.

use crate::host::{TestHost, shown};
use leasehold::{Config, ConfigSources, Secret};
use secrecy::ExposeSecret;
use std::time::Duration;

/// A source that can have a value for a key.
struct Source {
    name: &'static str,
    set: fn(&mut Values, key: &str, value: &str),
}

/// The values of all sources.
#[derive(Default)]
struct Values {
    variables: Vec<(String, String)>,
    profile: String,
    defaults: String,
}

/// The strongest first. A value in code is set after loading, and needs no rule.
const SOURCES: [Source; 3] = [
    Source {
        name: "env",
        set: |values, key, value| {
            let variable = format!("LEASEHOLD_{}", key.to_uppercase());
            values.variables.push((variable, value.to_owned()));
        },
    },
    Source { name: "profile", set: |values, key, value| values.profile += &format!("{key} = {value:?}\n") },
    Source { name: "defaults", set: |values, key, value| values.defaults += &format!("{key} = {value:?}\n") },
];

impl Values {
    fn load(&self) -> (TestHost, Config) {
        let mut host = TestHost::with_system_file(&format!(
            "default = \"p\"\n[defaults]\n{}[profile.p]\nurl = \"memory:\"\n{}",
            self.defaults, self.profile
        ));
        for (variable, value) in &self.variables {
            host.set(variable, value);
        }
        let config = host.load();
        (host, config)
    }

    /// The value of a key, and its source without the place in the file.
    fn outcome(&self, key: &str) -> (String, String) {
        let (host, config) = self.load();
        let (value, source) = shown(&config, key);
        (value, host.shortened(&source))
    }
}

#[test]
fn value_in_code_overrides_every_source() {
    let mut values = Values::default();
    for (key, value) in [("ttl", "1s"), ("wait", "1s"), ("prefix", "a/")] {
        (SOURCES[0].set)(&mut values, key, value);
    }
    let time = Duration::from_secs(7);
    let config = values.load().1.with_ttl(time).with_wait(time).with_prefix("b/").unwrap();
    for (key, value) in [("ttl", "7s"), ("wait", "7s"), ("prefix", "b/")] {
        assert_eq!(shown(&config, key), (value.to_owned(), "given".to_owned()));
    }
}

#[test]
fn value_of_the_stronger_of_two_sources_counts() {
    let keys = [
        ("ttl", ["2s", "3s", "4s"], 0),
        ("wait", ["0", "3s", "forever"], 0),
        ("prefix", ["", "c/", "d/"], 0),
        ("max_hold", ["", "3s", "none"], 1),
        ("hold_at_least", ["", "3s", "4s"], 1),
    ];
    for (key, texts, first) in keys {
        for stronger in first..SOURCES.len() {
            let mut values = Values::default();
            for at in (stronger..SOURCES.len()).take(2) {
                (SOURCES[at].set)(&mut values, key, texts[at]);
            }
            let (value, source) = values.outcome(key);
            let name = SOURCES[stronger].name;
            assert_eq!(value, texts[stronger], "{key} by {name}: {source}");
            let expected = match name {
                "env" => format!("env LEASEHOLD_{}", key.to_uppercase()),
                _ => "~/etc.toml:".to_owned(),
            };
            assert!(source.starts_with(&expected), "{key} by {name}: {source}");
        }
    }
}

#[test]
fn value_without_a_source_is_built_in() {
    for (key, value) in
        [("ttl", "30s"), ("wait", "forever"), ("prefix", ""), ("max_hold", "none"), ("hold_at_least", "0s")]
    {
        let expected = (value.to_owned(), "default".to_owned());
        assert_eq!(Values::default().outcome(key), expected, "{key}");
    }
}

#[test]
fn options_are_those_of_the_profile() {
    let host =
        TestHost::with_system_file("default = 'p'\n[profile.p]\nurl = 'memory:'\nttl = '7s'\nwait = '3s'\n");
    let options = host.load().options();
    assert_eq!(options.ttl().as_secs(), 7);
    assert_eq!(options.wait(), Duration::from_secs(3).into());
}

/// The store and its profile, if the file has the profiles `one`, the default, and `two`.
fn store(
    change: impl FnOnce(&mut TestHost),
    give: impl FnOnce(ConfigSources) -> ConfigSources,
) -> (String, String) {
    let text = "default = 'one'\n[profile.one]\nurl = 'memory:one'\n[profile.two]\nurl = 'memory:two'\n";
    let mut host = TestHost::with_system_file(text);
    change(&mut host);
    let config = give(host.sources()).load().unwrap();
    let profile = config.show().into_iter().find(|entry| entry.key == "profile");
    (config.url().to_string(), profile.map_or("none".to_owned(), |entry| entry.value))
}

#[test]
fn strongest_source_with_a_url_or_a_profile_names_the_store() {
    let is = |found: (String, String), url: &str, profile: &str| {
        assert_eq!((found.0.as_str(), found.1.as_str()), (url, profile));
    };
    let url = |host: &mut TestHost| host.set("LEASEHOLD_URL", "memory:env");
    let profile = |host: &mut TestHost| host.set("LEASEHOLD_PROFILE", "two");
    let nothing = |_: &mut TestHost| {};
    let as_it_is = |sources| sources;

    is(store(url, |sources| sources.with_url("memory:given")), "memory:given", "none");
    is(store(url, |sources| sources.with_profile("two")), "memory:two", "two");
    is(store(profile, |sources| sources.with_url("memory:given")), "memory:given", "none");
    is(store(profile, |sources| sources.with_profile("one")), "memory:one", "one");
    is(store(url, as_it_is), "memory:env", "none");
    is(store(profile, as_it_is), "memory:two", "two");
    is(store(nothing, as_it_is), "memory:one", "one");
}

/// The default of the file may be another store.
#[test]
fn default_profile_is_refused_if_a_url_was_removed() {
    let removed = |host: &mut TestHost| host.set("LEASEHOLD_URL_REMOVED", "1");
    let mut host = TestHost::with_system_file("default = 'one'\n[profile.one]\nurl = 'memory:one'\n");
    removed(&mut host);
    let problem = host.problem();
    assert!(problem.contains("LEASEHOLD_URL was removed by leasehold run"), "{problem}");

    let url = store(removed, |sources| sources.with_url("memory:given")).0;
    assert_eq!(url, "memory:given");
    assert_eq!(store(removed, |sources| sources.with_profile("two")).0, "memory:two");
    let named = |host: &mut TestHost| {
        removed(host);
        host.set("LEASEHOLD_PROFILE", "two");
    };
    assert_eq!(store(named, |sources| sources).0, "memory:two");
}

#[test]
fn variable_in_the_default_profile_is_replaced() {
    let text =
        "default = '${STAGE:-one}'\n[profile.one]\nurl = 'memory:one'\n[profile.two]\nurl = 'memory:two'\n";
    let mut host = TestHost::with_system_file(text);
    assert_eq!(shown(&host.load(), "profile").0, "one");
    host.set("STAGE", "two");
    assert_eq!(shown(&host.load(), "profile").0, "two");
}

#[test]
fn variables_of_an_unused_profile_need_not_be_set() {
    let text = "default = 'one'\n[profile.one]\nurl = 'memory:'\n[profile.two]\nurl = '${NOT_SET}'\n";
    assert_eq!(shown(&TestHost::with_system_file(text).load(), "profile").0, "one");
}

#[test]
fn url_takes_nothing_from_a_profile_but_the_defaults_hold() {
    let mut host = TestHost::new();
    host.write("pw", "secret\n");
    host.write(
        "etc.toml",
        format!(
            "default = 'p'\n[defaults]\nprefix = 'all/'\n[profile.p]\nurl = 'redis://h'\nttl = '7s'\ntimeout = '1s'\n\
             password_file = '{}'\n",
            host.path("pw").display()
        ),
    );
    host.set("LEASEHOLD_URL", "redis://elsewhere");
    let config = host.load();
    assert_eq!(config.url().to_string(), "redis://elsewhere");
    assert!(config.url().authority().unwrap().password.is_none());
    assert_eq!(config.options().ttl().as_secs(), 30);
    assert_eq!(config.prefix().unwrap().prefix(), "all/");
}

#[test]
fn password_file_of_the_stronger_source_counts() {
    let mut host = TestHost::new();
    let files = ["given", "env", "profile"].map(|name| host.write(name, format!("{name}\n")));
    let text = format!("default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_file = '{}'\n", files[2]);
    host.write("etc.toml", text);
    assert_eq!(password(&host.sources()), "profile");
    host.set("LEASEHOLD_PASSWORD_FILE", &files[1]);
    assert_eq!(password(&host.sources()), "env");
    let config = host.load().with_password(Secret::file(&files[0]).unwrap()).unwrap();
    assert_eq!(read_password(&config), "given");
}

#[test]
fn password_of_a_named_variable_counts() {
    let mut host =
        TestHost::with_system_file("default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_env = 'PW'\n");
    host.set("PW", "p@ss:/#word");
    assert_eq!(password(&host.sources()), "p@ss:/#word");
}

fn password(sources: &ConfigSources) -> String {
    read_password(&sources.load().unwrap())
}

fn read_password(config: &Config) -> String {
    config.url().authority().unwrap().password.unwrap().read().unwrap().expose_secret().to_owned()
}

#[test]
fn first_file_counts_alone() {
    let mut host = TestHost::new();
    let says = |name: &str| format!("default = 'p'\n[profile.p]\nurl = 'memory:{name}'\n");
    let url = |sources: ConfigSources| sources.load().unwrap().url().to_string();
    host.write("etc.toml", says("system") + "ttl = '7s'\n");
    assert_eq!(url(host.sources()), "memory:system");
    host.write_users(&says("user"));
    assert_eq!(url(host.sources()), "memory:user");
    host.write_here(&says("here"));
    assert_eq!(url(host.sources()), "memory:here");
    let named = host.write("named.toml", says("env"));
    host.set("LEASEHOLD_CONFIG", named);
    assert_eq!(url(host.sources()), "memory:env");
    let given = host.write("given.toml", says("given"));
    assert_eq!(url(host.sources().with_file(&given)), "memory:given");

    let config = host.sources().with_file(&given).load().unwrap();
    assert_eq!(config.options().ttl().as_secs(), 30, "nothing of a weaker file is merged in");
    assert_eq!(config.file().unwrap().to_str().unwrap(), given);
}

#[test]
fn search_path_begins_with_the_working_directory() {
    let mut host = TestHost::new();
    let places = |host: &TestHost| {
        let search = host.sources().search_path();
        let places = search.iter().map(|path| host.shortened(path.to_str().unwrap()));
        places.collect::<Vec<_>>()
    };
    let users = "~/home/.config/leasehold/config.toml";
    assert_eq!(places(&host), ["~/work/leasehold.toml", users, "~/etc.toml"]);
    host.set("XDG_CONFIG_HOME", "/xdg");
    let users = "/xdg/leasehold/config.toml";
    assert_eq!(places(&host), ["~/work/leasehold.toml", users, "~/etc.toml"]);
    assert!(ConfigSources::new().search_path().is_empty());
    let ours = ConfigSources::of_this_process().search_path();
    assert_eq!(ours[0].to_str(), Some("./leasehold.toml"));
    assert_eq!(ours.last().unwrap().to_str(), Some("/etc/leasehold/config.toml"));
}
