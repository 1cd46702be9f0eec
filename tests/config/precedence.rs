//! Which word counts: each place against the next weaker one.

use crate::scene::{Scene, shown};
use leasehold::ConfigSources;

/// A place that can say something of a key, and how it says it.
struct Place {
    name: &'static str,
    say: fn(&mut Said, key: &str, value: &str),
}

/// What has been said so far.
#[derive(Default)]
struct Said {
    given: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    profile: String,
    defaults: String,
}

const PLACES: [Place; 4] = [
    Place { name: "given", say: |said, key, value| said.given.push((key.to_owned(), value.to_owned())) },
    Place {
        name: "env",
        say: |said, key, value| {
            let variable = format!("LEASEHOLD_{}", key.to_uppercase());
            said.variables.push((variable, value.to_owned()));
        },
    },
    Place { name: "profile", say: |said, key, value| said.profile += &format!("{key} = {value:?}\n") },
    Place { name: "defaults", say: |said, key, value| said.defaults += &format!("{key} = {value:?}\n") },
];

impl Said {
    /// The value of a key, and its source without the place in the file.
    fn outcome(&self, key: &str) -> (String, String) {
        let mut scene = Scene::with_system_file(&format!(
            "default = \"p\"\n[defaults]\n{}[profile.p]\nurl = \"memory:\"\n{}",
            self.defaults, self.profile
        ));
        for (variable, value) in &self.variables {
            scene.set(variable, value);
        }
        let mut sources = scene.sources();
        for (key, value) in &self.given {
            sources = give(sources, key, value);
        }
        let (value, source) = shown(&sources.load().unwrap(), key);
        (value, scene.shortened(&source))
    }
}

fn give(sources: ConfigSources, key: &str, value: &str) -> ConfigSources {
    match key {
        "ttl" => sources.with_ttl(value),
        "wait" => sources.with_wait(value),
        "prefix" => sources.with_prefix(value),
        other => panic!("{other} cannot be given"),
    }
}

#[test]
fn the_stronger_of_two_neighbours_counts() {
    let keys = [
        ("ttl", ["1s", "2s", "3s", "4s"], 0),
        ("wait", ["forever", "0", "3s", "4s"], 0),
        ("prefix", ["a/", "", "c/", "d/"], 0),
        ("max_hold", ["", "", "3s", "none"], 2),
        ("hold_at_least", ["", "", "3s", "4s"], 2),
    ];
    for (key, values, first) in keys {
        for stronger in first..PLACES.len() {
            let mut said = Said::default();
            for at in (stronger..PLACES.len()).take(2) {
                (PLACES[at].say)(&mut said, key, values[at]);
            }
            let (value, source) = said.outcome(key);
            let place = PLACES[stronger].name;
            assert_eq!(value, values[stronger], "{key} by {place}: {source}");
            let expected = match place {
                "given" => "given".to_owned(),
                "env" => format!("env LEASEHOLD_{}", key.to_uppercase()),
                _ => "~/etc.toml:".to_owned(),
            };
            assert!(source.starts_with(&expected), "{key} by {place}: {source}");
        }
    }
}

#[test]
fn what_nobody_speaks_of_is_built_in() {
    for (key, value) in
        [("ttl", "30s"), ("wait", "forever"), ("prefix", ""), ("max_hold", "none"), ("hold_at_least", "0s")]
    {
        let expected = (value.to_owned(), "default".to_owned());
        assert_eq!(Said::default().outcome(key), expected, "{key}");
    }
}

#[test]
fn what_counts_reaches_the_locks() {
    let scene =
        Scene::with_system_file("default = 'p'\n[profile.p]\nurl = 'memory:'\nttl = '7s'\nwait = '3s'\n");
    let options = scene.load().options();
    assert_eq!(options.ttl().as_secs(), 7);
    assert_eq!(options.wait(), std::time::Duration::from_secs(3).into());
    let rest = format!("{:?}", scene.sources().with_ttl("1s").load().unwrap().options());
    assert!(rest.contains("ttl: 1s"), "{rest}");
}

/// Where the store is from, if the file has the profiles `one`, the default, and `two`.
fn store(
    change: impl FnOnce(&mut Scene),
    give: impl FnOnce(ConfigSources) -> ConfigSources,
) -> (String, String) {
    let text = "default = 'one'\n[profile.one]\nurl = 'memory:one'\n[profile.two]\nurl = 'memory:two'\n";
    let mut scene = Scene::with_system_file(text);
    change(&mut scene);
    let config = give(scene.sources()).load().unwrap();
    (config.url().to_string(), config.profile().unwrap_or("none").to_owned())
}

#[test]
fn one_place_says_which_store() {
    let is = |found: (String, String), url: &str, profile: &str| {
        assert_eq!((found.0.as_str(), found.1.as_str()), (url, profile));
    };
    let url = |scene: &mut Scene| scene.set("LEASEHOLD_URL", "memory:env");
    let profile = |scene: &mut Scene| scene.set("LEASEHOLD_PROFILE", "two");
    let nothing = |_: &mut Scene| {};
    let as_it_is = |sources| sources;

    is(store(url, |sources| sources.with_url("memory:given")), "memory:given", "none");
    is(store(url, |sources| sources.with_profile("two")), "memory:two", "two");
    is(store(profile, |sources| sources.with_url("memory:given")), "memory:given", "none");
    is(store(profile, |sources| sources.with_profile("one")), "memory:one", "one");
    is(store(url, as_it_is), "memory:env", "none");
    is(store(profile, as_it_is), "memory:two", "two");
    is(store(nothing, as_it_is), "memory:one", "one");
}

/// That of the file is another one, perhaps.
#[test]
fn where_a_url_was_kept_back_a_store_must_be_named() {
    let removed = |scene: &mut Scene| scene.set("LEASEHOLD_URL_REMOVED", "1");
    let mut scene = Scene::with_system_file("default = 'one'\n[profile.one]\nurl = 'memory:one'\n");
    removed(&mut scene);
    let problem = scene.problem();
    assert!(problem.contains("LEASEHOLD_URL was removed by leasehold run"), "{problem}");

    let url = store(removed, |sources| sources.with_url("memory:given")).0;
    assert_eq!(url, "memory:given");
    assert_eq!(store(removed, |sources| sources.with_profile("two")).0, "memory:two");
    let named = |scene: &mut Scene| {
        removed(scene);
        scene.set("LEASEHOLD_PROFILE", "two");
    };
    assert_eq!(store(named, |sources| sources).0, "memory:two");
}

#[test]
fn the_default_profile_can_come_from_a_variable() {
    let text =
        "default = '${STAGE:-one}'\n[profile.one]\nurl = 'memory:one'\n[profile.two]\nurl = 'memory:two'\n";
    let mut scene = Scene::with_system_file(text);
    assert_eq!(scene.load().profile(), Some("one"));
    scene.set("STAGE", "two");
    assert_eq!(scene.load().profile(), Some("two"));
}

#[test]
fn variables_of_a_profile_that_does_not_count_need_not_be_set() {
    let text = "default = 'one'\n[profile.one]\nurl = 'memory:'\n[profile.two]\nurl = '${NOT_SET}'\n";
    assert_eq!(Scene::with_system_file(text).load().profile(), Some("one"));
}

#[test]
fn a_url_takes_nothing_from_a_profile_but_the_defaults_hold() {
    let mut scene = Scene::new();
    scene.write("pw", "secret\n");
    scene.write(
        "etc.toml",
        format!(
            "default = 'p'\n[defaults]\nprefix = 'all/'\n[profile.p]\nurl = 'redis://h'\nttl = '7s'\ntimeout = '1s'\n\
             password_file = '{}'\n",
            scene.path("pw").display()
        ),
    );
    scene.set("LEASEHOLD_URL", "redis://elsewhere");
    let config = scene.load();
    assert_eq!(config.url().to_string(), "redis://elsewhere");
    assert!(config.url().authority().unwrap().password.is_none());
    assert_eq!(config.options().ttl().as_secs(), 30);
    assert_eq!(config.prefix().unwrap().prefix(), "all/");
}

#[test]
fn a_password_file_that_is_named_by_a_stronger_word_counts() {
    let mut scene = Scene::new();
    let files = ["given", "env", "profile"].map(|name| scene.write(name, format!("{name}\n")));
    let text = format!("default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_file = '{}'\n", files[2]);
    scene.write("etc.toml", text);
    assert_eq!(password(&scene.sources()), "profile");
    scene.set("LEASEHOLD_PASSWORD_FILE", &files[1]);
    assert_eq!(password(&scene.sources()), "env");
    assert_eq!(password(&scene.sources().with_password_file(&files[0])), "given");
}

#[test]
fn a_password_can_come_from_any_variable() {
    let mut scene =
        Scene::with_system_file("default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_env = 'PW'\n");
    scene.set("PW", "p@ss:/#word");
    assert_eq!(password(&scene.sources()), "p@ss:/#word");
}

fn password(sources: &ConfigSources) -> String {
    let authority = sources.load().unwrap().url().authority().unwrap();
    secrecy::ExposeSecret::expose_secret(&authority.password.unwrap()).to_owned()
}

#[test]
fn one_file_counts_and_it_is_the_first() {
    let mut scene = Scene::new();
    let says = |name: &str| format!("default = 'p'\n[profile.p]\nurl = 'memory:{name}'\n");
    let url = |sources: ConfigSources| sources.load().unwrap().url().to_string();
    scene.write("etc.toml", says("system") + "ttl = '7s'\n");
    assert_eq!(url(scene.sources()), "memory:system");
    scene.write_users(&says("user"));
    assert_eq!(url(scene.sources()), "memory:user");
    scene.write_here(&says("here"));
    assert_eq!(url(scene.sources()), "memory:here");
    let named = scene.write("named.toml", says("env"));
    scene.set("LEASEHOLD_CONFIG", named);
    assert_eq!(url(scene.sources()), "memory:env");
    let given = scene.write("given.toml", says("given"));
    assert_eq!(url(scene.sources().with_file(&given)), "memory:given");

    let config = scene.sources().with_file(&given).load().unwrap();
    assert_eq!(config.options().ttl().as_secs(), 30, "nothing of a weaker file is merged in");
    assert_eq!(config.file().unwrap().to_str().unwrap(), given);
}

#[test]
fn files_are_looked_for_in_the_order_of_their_strength() {
    let mut scene = Scene::new();
    let places = |scene: &Scene| {
        let search = scene.sources().search_path();
        let places = search.iter().map(|path| scene.shortened(path.to_str().unwrap()));
        places.collect::<Vec<_>>()
    };
    let users = "~/home/.config/leasehold/config.toml";
    assert_eq!(places(&scene), ["~/work/leasehold.toml", users, "~/etc.toml"]);
    scene.set("XDG_CONFIG_HOME", "/xdg");
    let users = "/xdg/leasehold/config.toml";
    assert_eq!(places(&scene), ["~/work/leasehold.toml", users, "~/etc.toml"]);
    assert!(ConfigSources::new().search_path().is_empty());
    let ours = ConfigSources::of_this_process().search_path();
    assert_eq!(ours[0].to_str(), Some("./leasehold.toml"));
    assert_eq!(ours.last().unwrap().to_str(), Some("/etc/leasehold/config.toml"));
}
