//! Which store: flags, environment, files, and how that is shown.

use crate::support::{CommandOutput, Place};
use leasehold_test_stores::servers::RedisServer;

#[test]
fn flag_wins_over_environment_and_environment_over_file() {
    let place = Place::new();
    place.file(
        "leasehold.toml",
        "default = \"f\"\n[profile.f]\nurl = \"sqlite:file.db\"\n[profile.g]\nurl = \"sqlite:g.db\"\n",
    );
    let url = |words: &[&str], environment: &[(&str, &str)]| {
        let mut command = place.command(words);
        command.envs(environment.iter().copied());
        let said = CommandOutput::of(&command.output().unwrap());
        let line = said.code(0).out.lines().find(|line| line.starts_with("url")).unwrap().to_owned();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let environment = [("LEASEHOLD_URL", "sqlite:env.db")];
    assert_eq!(url(&["config", "show"], &[]), "url = \"sqlite:file.db\" # ./leasehold.toml:3");
    assert_eq!(url(&["-p", "g", "config", "show"], &[]), "url = \"sqlite:g.db\" # ./leasehold.toml:5");
    assert_eq!(url(&["config", "show"], &environment), "url = \"sqlite:env.db\" # env LEASEHOLD_URL");
    assert_eq!(
        url(&["-u", "sqlite:flag.db", "config", "show"], &environment),
        "url = \"sqlite:flag.db\" # given"
    );
}

#[test]
fn every_value_is_shown_with_its_source() {
    let place = Place::with_store("sqlite:/tmp/x.db");
    let expected = "\
url = \"sqlite:/tmp/x.db\"  # env LEASEHOLD_URL
prefix = \"\"               # default
ttl = \"30s\"               # default
wait = \"forever\"          # default
max_hold = \"none\"         # default
hold_at_least = \"0s\"      # default
";
    place.say(["config", "show"]).expect(0, expected, "");
    let json: serde_json::Value = serde_json::from_str(&place.say(["config", "show", "--json"]).out).unwrap();
    assert_eq!(
        json[0],
        serde_json::json!({"key": "url", "value": "sqlite:/tmp/x.db", "source": "env LEASEHOLD_URL"})
    );
}

#[test]
fn config_path_prints_the_file_in_use() {
    let place = Place::new();
    let none = place.say(["config", "path"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""));
    assert!(
        none.err.starts_with("leasehold: there is no configuration file; looked for ./leasehold.toml, "),
        "{}",
        none.err
    );
    let file = place.file("mine.toml", "[defaults]\nttl = \"10s\"\n");
    let file = file.to_str().unwrap();
    place.say(["--config", file, "config", "path"]).expect(0, &format!("{file}\n"), "");
    let mut named = place.command(["config", "path"]);
    named.env("LEASEHOLD_CONFIG", file);
    CommandOutput::of(&named.output().unwrap()).expect(0, &format!("{file}\n"), "");
}

#[test]
fn defaults_of_the_file_apply() {
    let place = Place::new();
    place.file("leasehold.toml", "[defaults]\nttl = \"10s\"\nwait = \"0\"\n");
    let ttl = |words: &[&str]| place.say(words).out;
    let script = "echo $LEASEHOLD_TTL_MS";
    assert_eq!(ttl(&["run", "x", "--", "sh", "-c", script]), "10000\n");
    assert_eq!(ttl(&["run", "--ttl", "20s", "x", "--", "sh", "-c", script]), "20000\n");
    let _holder = place.hold("x");
    place.say(["run", "x", "--", "true"]).code(75);
}

#[test]
fn unknown_keys_are_refused_with_the_nearest() {
    let place = Place::new();
    place.file("leasehold.toml", "[defaults]\ntll = \"10s\"\n");
    let said = place.say(["run", "x", "--", "true"]);
    said.code(78);
    assert!(said.err.contains("leasehold.toml:2") && said.err.contains("\"ttl\""), "{}", said.err);
}

/// The backend alone knows the parameters of a profile.
#[test]
fn config_show_refuses_an_unknown_parameter_of_a_profile() {
    let place = Place::new();
    place.file("leasehold.toml", "default = \"p\"\n[profile.p]\nurl = \"redis://h\"\ntimout = \"1s\"\n");
    let said = place.say(["config", "show"]);
    assert!(said.code(78).err.contains("leasehold.toml:4: unknown key \"timout\""), "{}", said.err);
    assert!(said.err.contains("did you mean \"timeout\"?"), "{}", said.err);
}

#[test]
fn default_store_is_refused_if_a_store_is_required() {
    let place = Place::new();
    for words in [&["run", "x", "--", "true"][..], &["config", "show"]] {
        let mut command = place.command(words);
        command.env("LEASEHOLD_REQUIRE_STORE", "1");
        let said = CommandOutput::of(&command.output().unwrap());
        assert!(said.code(78).err.contains("require_store forbids the default one"), "{said:?}");
    }
    assert!(!place.default_store().exists());
}

/// It would be read once by the verb, and again, empty, by each of its cases and processes: those would be somewhere else.
#[test]
fn configuration_readable_only_once_is_refused_by_verbs_with_workers() {
    let place = Place::new();
    let profile = "[profile.p]\\nurl = \\\"redis://127.0.0.1:1\\\"\\n";
    let config = format!("printf \"default = \\\"p\\\"\\n{profile}\"");
    for verb in ["bench --quick", "conformance --filter A01", "compare redis://127.0.0.1:1"] {
        for call in [
            format!("$0 --config <({config}) {verb}"),
            format!("{config} | LEASEHOLD_CONFIG=/dev/stdin $0 {verb}"),
        ] {
            let said = place.shell(&call);
            assert!(said.code(78).err.contains(": it can be read only once\n"), "{call}: {said:?}");
        }
    }
    assert!(!place.default_store().exists());
    // What reads it once may have it so.
    let shown = place.shell(&format!("$0 --config <({config}) config show"));
    assert!(shown.code(0).out.contains("url = \"redis://127.0.0.1:1\""), "{shown:?}");
}

#[test]
fn check_of_memory_warns_of_one_process() {
    let said = Place::new().say(["config", "check", "-u", "memory:"]);
    assert!(said.code(0).out.contains("\nwarning[W_ONE_PROCESS]: "), "{said:?}");
}

#[test]
fn check_connects_and_lists_its_findings() {
    let (place, server) = Place::with_redis();
    let said = place.say(["config", "check"]);
    assert!(said.code(0).out.starts_with(&format!("{} answers", server.url())), "{said:?}");
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    let said = place.say(["config", "check"]);
    assert!(said.out.contains("\nwarning[W_EVICT]: maxmemory-policy is \"allkeys-lru\""), "{said:?}");
    assert!(said.out.lines().all(|line| line == line.trim_end()), "a label without a word: {said:?}");
    let json: serde_json::Value =
        serde_json::from_str(&place.say(["config", "check", "--json"]).out).unwrap();
    assert!(
        json.as_array().unwrap().iter().any(|finding| finding["code"].as_str().unwrap().contains("EVICT"))
    );
}

#[test]
fn config_check_of_an_unreachable_store_fails() {
    let server = RedisServer::start_with(&["--requirepass", "other"]).unwrap();
    let refused = Place::with_store(server.url()).say(["config", "check"]);
    assert!(!refused.code(77).out.contains("answers"), "{refused:?}");
    let mut server = RedisServer::start().unwrap();
    server.kill();
    for url in [server.url(), format!("redlock://127.0.0.1:{},127.0.0.1:1,127.0.0.1:2", server.port())] {
        let away = Place::with_store(url).say(["config", "check"]);
        assert!(!away.code(69).out.contains("answers"), "{away:?}");
    }
}

#[test]
fn world_readable_secret_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let file = place.file("leasehold.toml", "default = \"p\"\n[profile.p]\nurl = \"redis://:S3CR3T@h\"\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = place.say(["config", "show"]);
    assert!(said.code(0).err.starts_with("warning: "), "{said:?}");
    assert!(!format!("{said:?}").contains("S3CR3T"));
}
