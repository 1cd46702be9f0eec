//! Looking at locks, and taking one away: `ls`, `try`, `inspect`, `release --force`, `init`.

use crate::quickstart::host;
use crate::support::{CommandOutput, Place};
use std::process::Stdio;

#[test]
fn inspection_of_a_free_lock_takes_nothing() {
    let place = Place::new();
    place.say(["run", "warm", "--", "true"]);
    place.say(["try", "x"]).expect(0, "\"x\" is free\n", "");
    place.say(["try", "--json", "x"]).expect(0, "{\"name\":\"x\",\"held\":false,\"lock\":null}\n", "");
    place.say(["inspect", "x"]).expect(0, "\"x\" is free\n", "");
    place.say(["ls"]).expect(0, "", "");
    place.say(["ls", "--json"]).expect(0, "[]\n", "");
}

#[test]
fn held_lock_is_shown_with_its_holder() {
    let place = Place::new();
    let mut run = place.start([
        "-q",
        "run",
        "--info",
        "version=1.4",
        "job/a",
        "--",
        "sh",
        "-c",
        "echo $LEASEHOLD_TOKEN; exec sleep 1000",
    ]);
    let token = run.line("");
    let holder = format!("ada@{}:{} (sh …)", host(), run.process().number());
    let shown = place.say(["inspect", "job/a"]);
    let lines: Vec<&str> = shown.code(0).out.lines().collect();
    assert!(lines[0].starts_with(&format!("\"job/a\" is held by {holder} for ")), "{}", lines[0]);
    assert_eq!(lines[1], format!("  holder   {holder}"));
    assert!(lines[2].starts_with("  since    20") && lines[3].starts_with("  until    20"), "{lines:?}");
    assert_eq!(lines[4], "  info     version=1.4");
    assert_eq!(lines[5], format!("  token    {token}"));
    assert!(lines[6].starts_with("  owner    ") && lines[6].ends_with('…'), "{}", lines[6]);

    let json = place.say(["inspect", "--json", "job/a"]);
    let state: serde_json::Value = serde_json::from_str(&json.code(0).out).unwrap();
    assert_eq!(state["held"], true);
    assert_eq!(state["lock"]["token"].to_string(), token);
    assert_eq!(state["lock"]["holder"]["labels"]["version"], "1.4");
    assert_eq!(state["waiters"], serde_json::json!([]));
}

/// A login sets `USER`; cron sets `LOGNAME` alone.
#[test]
fn holder_is_named_by_user_logname_or_uid() {
    let place = Place::new();
    let told = |setting: &str| {
        let shown = place.shell(&format!("env -u USER {setting} $0 -q run x -- $0 inspect x"));
        shown.code(0).out.split('@').next().unwrap().to_owned()
    };
    assert_eq!(told("LOGNAME=backup"), "\"x\" is held by backup");
    assert_eq!(told("USER=ada LOGNAME=backup"), "\"x\" is held by ada");
    let nobody = format!("\"x\" is held by uid{}", rustix::process::getuid().as_raw());
    assert_eq!([told(""), told("USER= LOGNAME=")], [&*nobody, &*nobody]);
}

#[test]
fn ls_prints_aligned_columns_of_the_matching_locks() {
    let place = Place::new();
    let _held = [place.hold("job/a"), place.hold("job/a longer name"), place.hold("other")];
    let listed = place.say(["ls", "job/"]);
    let lines: Vec<&str> = listed.code(0).out.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("NAME               HOLDER"), "{}", lines[0]);
    let holder_at = lines[0].find("HOLDER").unwrap();
    for (line, name) in lines[1..].iter().zip(["job/a", "job/a longer name"]) {
        assert_eq!(line[..holder_at].trim_end(), name);
        assert!(line[holder_at..].starts_with("ada@"), "{line}");
        assert!(line.contains("leasehold hold"), "{line}");
    }
    let json: serde_json::Value = serde_json::from_str(&place.say(["ls", "--json"]).out).unwrap();
    let names: Vec<&str> =
        json.as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["job/a", "job/a longer name", "other"]);
}

/// What another program left in the store must not move the cursor.
#[test]
fn odd_text_from_the_store_is_shown_safely() {
    let (place, _server) = Place::with_redis();
    let odd = "evil\u{1b}[2J\u{202e}";
    let mut held = place.start(["hold", "--info", &format!("k={odd}"), "n\u{202e}ame"]);
    held.line("{");
    for words in [["ls", "--color=always"], ["inspect", "n\u{202e}ame"], ["try", "n\u{202e}ame"]] {
        let said = place.say(words);
        let all = format!("{}{}", said.out, said.err);
        assert!(!all.contains("\u{1b}[2J") && !all.contains('\u{202e}'), "{words:?}: {all:?}");
    }
}

#[test]
fn quiet_try_reports_a_holder_by_exit_code_75() {
    let place = Place::new();
    let _held = place.hold("x");
    let said = place.say(["-q", "try", "x"]);
    assert_eq!((said.code, said.err.as_str()), (Some(75), ""));
    assert!(said.out.starts_with("\"x\" is held by ada@"));
}

#[test]
fn forced_release_takes_the_lock_from_the_stated_holder_only() {
    let place = Place::new();
    let mut hold = place.start(["hold", "--ttl", "600ms", "x"]);
    let told: serde_json::Value = serde_json::from_str(&format!("{{{}", hold.line("{"))).unwrap();
    let token = told["token"].to_string();

    let other = place.say(["-q", "release", "--force", "--yes", "--if-token", "1", "x"]);
    other.expect(75, "", "error[E_BUSY]: \"x\" is not held with token 1\n");
    let other = place.say(["-q", "release", "--force", "--yes", "--if-holder", "bob", "x"]);
    other.expect(75, "", "error[E_BUSY]: \"x\" is not held by \"bob\"\n");
    for nobody in ["", " "] {
        let unset = place.say(["release", "--force", "--yes", "--if-holder", nobody, "x"]);
        assert!(unset.code(64).err.contains("would be part of everything"), "{}", unset.err);
    }
    let asked = place.say(["-q", "release", "--force", "x"]);
    asked.expect(64, "", "error[E_INVALID]: invalid call: there is no terminal to ask on\n");
    assert!(place.is_held("x"));

    let taken = place.say(["release", "--force", "--yes", "--if-token", &token, "--if-holder", "ada@", "x"]);
    assert!(taken.code(0).err.ends_with("leasehold: \"x\" was taken from its holder\n"), "{}", taken.err);
    hold.wait().code(80);
    let free = place.say(["release", "--force", "--yes", "x"]);
    free.expect(0, "", "leasehold: \"x\" is free, there is nothing to release\n");
}

#[test]
fn init_creates_or_prints_the_schema() {
    let place = Place::with_store("sqlite:locks.db");
    let printed = place.say(["init", "--print"]);
    assert!(printed.code(0).out.contains("CREATE TABLE"), "{printed:?}");
    assert!(!place.path().join("locks.db").exists());
    place.say(["init"]).expect(0, "", "leasehold: sqlite:locks.db is ready\n");
    assert!(place.path().join("locks.db").exists());
    place.say(["-q", "init"]).expect(0, "", "");
}

#[test]
fn redis_needs_nothing() {
    let (place, server) = Place::with_redis();
    place.say(["init", "--print"]).expect(0, "", &format!("leasehold: {} needs nothing\n", server.url()));
}

#[test]
fn completions_and_manual_are_there() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = place.say(["completions", shell]);
        assert!(said.code(0).out.contains("conflict-exit-code"), "{shell}");
        assert!(!said.out.contains("bench-worker"), "{shell}");
    }
    let page = place.say(["man"]);
    for words in [".TH", "fBLEASEHOLD_NAME", "for success, 1 for", ".BR leasehold-run (1)"] {
        assert!(page.code(0).out.contains(words), "{words}");
    }
    std::fs::create_dir(place.path().join("man1")).unwrap();
    place.say(["man", "man1"]).expect(0, "", "");
    assert!(place.path().join("man1/leasehold-run.1").exists());
}

/// In bash, which takes a colon for the end of a word.
#[test]
fn completions_offer_the_names_of_locks_that_are_held() {
    let place = Place::new();
    let mut permit = place.start(["hold", "--permits", "2", "pool"]);
    permit.line("{");
    let _held = [place.hold("job:1"), place.hold("job:2"), place.hold("page")];
    place.file(
        "complete",
        r#"source <("$1" completions bash)
        words() {
            COMP_LINE=$1 COMP_POINT=${#1}
            read -ra COMP_WORDS <<<"$1"
            [[ $1 == *' ' ]] && COMP_WORDS+=("")
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
            _leasehold_with_names "$leasehold" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            echo "${COMPREPLY[*]}"
        }
        leasehold=$1
        shift
        for line; do words "$line"; done"#,
    );
    let lines = [
        ("leasehold try ", "job:1 job:2 page pool"),
        ("leasehold run -n job:", "1 2"),
        ("leasehold inspect pa", "page"),
        ("leasehold run -u sqlite:other.db p", ""),
        ("leasehold --url=sqlite:other.db run p", ""),
        ("leasehold --profile=nosuch run p", ""),
        ("leasehold -q release --force --if-token ", ""),
        ("leasehold run page -- ", ""),
    ];
    let mut bash = std::process::Command::new("bash");
    bash.args(["./complete", env!("CARGO_BIN_EXE_leasehold")]).args(lines.map(|(line, _)| line));
    place.settle(&mut bash);
    let said = CommandOutput::of(&bash.output().unwrap());
    let offered: Vec<&str> = said.code(0).out.lines().collect();
    for ((line, expected), offered) in lines.iter().zip(&offered) {
        let names: Vec<&str> = offered.split(' ').filter(|word| !word.starts_with('-')).collect();
        assert_eq!(names.join(" ").trim(), *expected, "{line}: {said:?}");
    }
    for (shell, asks) in
        [("zsh", "':name -- The lock:_leasehold_names'"), ("fish", "using_subcommand $verb; and not")]
    {
        assert!(place.say(["completions", shell]).out.contains(asks), "{shell}");
    }
    place.say(["ls", "--names"]).expect(0, "job:1\njob:2\npage\npool\n", "");
}

/// Another program may have written any time to live, and what can be looked at can be taken away.
#[test]
fn lease_beyond_the_year_9999_can_be_shown_and_released() {
    let (place, server) = Place::with_redis();
    for (lock, time) in [("x", "999999999999999"), ("y", "9000000000000000000")] {
        server.command(&["SET", &format!("leasehold:{lock}"), "theirs", "PX", time]).unwrap();
        let until = "  until    outside the years 1970 to 9999 (in ";
        assert!(place.say(["inspect", lock]).code(0).out.contains(until), "{lock}");
        place.say(["inspect", "--json", lock]).code(0);
        place.say(["try", lock]).code(75);
        place.say(["ls"]).code(0);
        assert!(place.say(["run", "-n", lock, "--", "true"]).code(75).err.contains(until), "{lock}");
        place.say(["run", "-w", "500ms", lock, "--", "true"]).code(75);
        place.say(["-v", "release", "--force", "--yes", lock]).code(0);
        place.say(["-q", "run", "-n", lock, "--", "true"]).expect(0, "", "");
    }
}

#[test]
fn closed_stdout_ends_silently_with_141() {
    let place = Place::new();
    for words in ["man", "completions bash", "config show", "ls --json"] {
        let mut shell = std::process::Command::new("bash");
        place.settle(&mut shell);
        let script = format!(r#"exec 3> >(:); wait $!; "$0" -q {words} >&3; echo $? >&2"#);
        let said = CommandOutput::of(
            &shell
                .args(["-c", &script, env!("CARGO_BIN_EXE_leasehold")])
                .stdout(Stdio::null())
                .output()
                .unwrap(),
        );
        assert_eq!(said.err, "141\n", "{words}");
    }
}

#[test]
fn log_is_written_on_request_and_a_bad_filter_refused() {
    let place = Place::new();
    let mut command = place.command(["run", "x", "--", "true"]);
    command.env("LEASEHOLD_LOG", "trace");
    let said = CommandOutput::of(&command.output().unwrap());
    assert!(said.code(0).err.contains("leasehold.acquire"), "{}", said.err);
    assert!(!said.err.contains('\u{1b}'), "colours, and nobody looks: {}", said.err);
    let mut command = place.command(["run", "x", "--", "true"]);
    command.env("LEASEHOLD_LOG", "=,=");
    let said = CommandOutput::of(&command.output().unwrap());
    assert!(
        said.code(78).err.starts_with("error[E_MISCONFIGURED]: LEASEHOLD_LOG is not a filter\n"),
        "{}",
        said.err
    );
}

#[test]
fn list_that_finds_nothing_below_a_prefix_says_so() {
    let place = Place::new();
    place.say(["-q", "run", "warm", "--", "true"]);
    place.say(["ls", "job/"]).expect(0, "", "leasehold: no lock whose name begins with \"job/\" is held\n");
}
