//! What the exit code says.

use crate::support::{Place, Running, full_pipe, gone};
use leasehold_test_stores::servers::RedisServer;
use rustix::process::Signal;

fn code_of(place: &Place, words: &[&str]) -> i32 {
    let said = place.say(words);
    said.code.unwrap_or_else(|| panic!("{words:?}: {said:?}"))
}

#[test]
fn exit_code_of_run_is_that_of_its_command() {
    let place = Place::new();
    for code in [0, 1, 7, 64, 75, 80, 255] {
        assert_eq!(code_of(&place, &["run", "x", "--", "sh", "-c", &format!("exit {code}")]), code);
    }
}

#[test]
fn exit_code_after_a_signal_is_128_and_its_number() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT, Signal::KILL, Signal::USR1, Signal::SEGV] {
        let script = format!("ulimit -c 0; kill -{} $$", signal.as_raw());
        assert_eq!(code_of(&place, &["run", "x", "--", "sh", "-c", &script]), 128 + signal.as_raw());
    }
}

#[test]
fn exit_code_of_a_held_lock_is_75_or_the_chosen_one() {
    let place = Place::new();
    let _holder = place.hold("x");
    assert_eq!(code_of(&place, &["run", "-n", "x", "--", "true"]), 75);
    assert_eq!(code_of(&place, &["run", "-w", "0", "x", "--", "true"]), 75);
    assert_eq!(code_of(&place, &["run", "-w", "1.5", "x", "--", "true"]), 75);
    assert_eq!(code_of(&place, &["run", "-n", "-E", "0", "x", "--", "true"]), 0);
    assert_eq!(code_of(&place, &["run", "-w", "1500ms", "-E", "3", "x", "--", "true"]), 3);
    assert_eq!(code_of(&place, &["hold", "-n", "x"]), 75);
}

#[test]
fn exit_code_of_a_wrong_command_line_is_64() {
    let place = Place::new();
    let wrong: [&[&str]; 15] = [
        &[],
        &["rum"],
        &["run"],
        &["run", "x"],
        &["run", "x", "--"],
        &["run", "x", "--", ""],
        &["run", "x", "true"],
        &["run", "x", "-c", "true", "--", "true"],
        &["run", "-n", "-w", "1", "x", "--", "true"],
        &["run", "-E", "256", "x", "--", "true"],
        &["run", "--ttl", "30", "x", "--", "true"],
        &["run", "--status-fd", "77", "x", "--", "true"],
        &["run", "", "--", "true"],
        &["release", "x"],
        &["run", "-u", "sqlite:x", "-p", "y", "x", "--", "true"],
    ];
    for words in wrong {
        assert_eq!(code_of(&place, words), 64, "{words:?}");
    }
    assert!(!place.default_store().exists(), "something was created");
}

#[test]
fn exit_code_of_an_unreachable_store_is_69() {
    // No server listens on port 1.
    let place = Place::with_store("redis://127.0.0.1:1");
    assert_eq!(code_of(&place, &["run", "x", "--", "true"]), 69);
    assert_eq!(code_of(&place, &["try", "x"]), 69);
}

#[test]
fn exit_code_of_a_silent_store_is_69() {
    let server = RedisServer::start().unwrap();
    server.pause();
    let place = Place::with_store(format!("{}?timeout=50ms&connect_timeout=50ms", server.url()));
    assert_eq!(code_of(&place, &["run", "-n", "x", "--", "true"]), 69);
}

/// The holder is printed only if the store tells it in time.
#[test]
fn store_that_does_not_tell_the_holder_does_not_prolong_the_wait() {
    let (place, server) = patient_place();
    server.pause();
    let said = place.say(["-v", "run", "-w", "1500ms", "x", "--", "true"]);
    said.code(69);
    server.resume();

    let _holder = place.hold("x");
    let waiter = place.start(["-v", "run", "-w", "3s", "x", "--", "true"]);
    waiter.warned("\"x\" is held by ");
    server.pause();
    waiter.wait().code(75);
}

/// A place whose timeout on the store is longer than any test.
fn patient_place() -> (Place, RedisServer) {
    let server = RedisServer::start().unwrap();
    (Place::with_store(format!("{}?timeout=60s&connect_timeout=60s", server.url())), server)
}

#[test]
fn exit_code_of_a_refusing_store_is_77() {
    let server = RedisServer::start_with(&["--requirepass", "right"]).unwrap();
    let place = Place::with_store(server.url().replace("//", "//:wrong@"));
    assert_eq!(code_of(&place, &["run", "x", "--", "true"]), 77);
}

#[test]
fn exit_code_of_a_wrong_configuration_is_78() {
    for url in
        ["nosuch://h", "sqlite:", "sqlite::memory:", "redis://h?timout=1s", "sqlite:/nowhere/at/all/x.db"]
    {
        let place = Place::with_store(url);
        assert_eq!(code_of(&place, &["run", "x", "--", "true"]), 78, "{url}");
    }
}

#[test]
fn exit_code_of_an_unknown_command_is_126_or_127_before_any_store() {
    let place = Place::new();
    let plain = place.file("plain", "");
    assert_eq!(code_of(&place, &["run", "x", "--", "no-such-command"]), 127);
    assert_eq!(code_of(&place, &["run", "x", "--", "./no-such-file"]), 127);
    assert_eq!(code_of(&place, &["run", "x", "--", "/"]), 126);
    assert_eq!(code_of(&place, &["run", "x", "--", plain.to_str().unwrap()]), 126);
    assert!(!place.default_store().exists(), "the store was opened");
}

#[test]
fn exec_error_is_reported_and_the_lock_is_released() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let script = place.file("script", "#!/no/such/interpreter\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = place.say(["-q", "run", "x", "--", "./script"]);
    said.expect(
        127,
        "",
        "error[E_COMMAND]: cannot execute \"./script\": No such file or directory (os error 2)\n",
    );
    assert!(!place.is_held("x"));
    // A command that did not run keeps no other out, also with `--hold-at-least`.
    let said = place.say(["run", "--hold-at-least", "1m", "x", "--", "./script"]);
    assert!(said.code(127).err.contains("  effect   the lock was released\n"), "{said:?}");
    assert!(!said.err.contains("not confirmed"), "{said:?}");
    place.say(["-q", "run", "-n", "x", "--", "true"]).expect(0, "", "");
}

#[test]
fn exit_code_of_a_lost_lock_is_80() {
    let place = Place::new();
    let mut run =
        place.start(["run", "--ttl", "600ms", "x", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    let command = run.process_line("pid ");
    place.say(["release", "--force", "--yes", "x"]).code(0);
    run.wait().code(80);
    gone(&[command]);
}

/// The command ends by itself, while the store is dead.
fn run_without_release(words: &[&str], script: &str) -> (i32, String) {
    let (place, mut server) = Place::with_redis();
    let mut all = vec!["run"];
    all.extend(words);
    all.extend(["x", "--", "sh", "-c", script]);
    let mut command = place.command(&all);
    command.stdin(std::process::Stdio::piped());
    let mut run = Running::start(command);
    run.line("pid ");
    server.kill();
    run.write("go\n");
    let said = run.wait();
    (said.code.unwrap(), said.err)
}

#[test]
fn exit_code_of_the_command_outranks_a_failed_release() {
    let (code, err) = run_without_release(&[], "echo pid $$; read go; exit 7");
    assert_eq!(code, 7);
    assert!(err.starts_with("warning: the release of \"x\" was not confirmed: "), "{err}");
    assert!(err.ends_with("  help     it is free when its lease ends at the latest\n"), "{err}");
}

#[test]
fn exit_code_of_a_failed_strict_release_is_81() {
    let (code, err) = run_without_release(&["--strict-release"], "echo pid $$; read go; exit 7");
    assert_eq!(code, 81);
    assert!(
        err.contains("]: the command has ended, but the release of its lock was not confirmed: "),
        "{err}"
    );
}

#[test]
fn status_fd_gets_the_outcome_as_json() {
    let place = Place::new();
    let told = |words: &str| {
        place.shell(&format!("\"$0\" run --status-fd 3 {words} 3>status"));
        std::fs::read_to_string(place.path().join("status")).unwrap()
    };
    assert_eq!(told("x -- sh -c 'exit 5'"), "{\"outcome\":\"ended\",\"command\":5,\"code\":5}\n");
    assert_eq!(told("x -- sh -c 'kill $$'"), "{\"outcome\":\"ended\",\"command\":143,\"code\":143}\n");
    assert_eq!(told("--token-fd 3 x -- true").lines().count(), 2, "one descriptor for both");
    assert_eq!(told("--token-fd 77 x -- true"), "{\"outcome\":\"failed\",\"command\":null,\"code\":64}\n");
    assert_eq!(told("x -- nosuch"), "{\"outcome\":\"failed\",\"command\":null,\"code\":127}\n");
    // There is no time to start it in.
    let lost = "{\"outcome\":\"lost\",\"command\":null,\"code\":80,\"lost\":true}\n";
    assert_eq!(told("--max-hold 10ms x -- true"), lost);
    let _holder = place.hold("x");
    assert_eq!(told("-n -E 0 x -- true"), "{\"outcome\":\"not_acquired\",\"command\":null,\"code\":0}\n");
}

/// The lock is given back by then; what would be kept waiting is whoever waits for the command, or ends it.
#[test]
fn unread_status_fd_is_not_waited_for() {
    let place = Place::new();
    let (_unread, full) = full_pipe();
    let mut command = place.command(["run", "--status-fd", "0", "x", "--", "sh", "-c", "exit 5"]);
    command.stdin(full);
    let said = Running::start(command).wait();
    let words = "warning: cannot write the ending to the descriptor of --status-fd: it is full, and nobody reads it\n";
    assert!(said.code(5).err.ends_with(words), "{}", said.err);
}

/// As on a full disk. An older result is a baseline, and may be all that there is.
#[test]
fn exit_code_of_a_lost_result_is_70_and_the_older_one_stays() {
    let place = Place::with_store("memory:");
    for words in [
        "conformance --filter A01 --junit",
        "bench --quick --passes 1 --duration 10ms --only uncontended --json",
    ] {
        place.file("result", "older");
        let said = place.shell(&format!("trap '' XFSZ; ulimit -f 0; \"$0\" {words} result"));
        assert!(said.code(70).err.contains("cannot write the result"), "{}", said.err);
        assert_eq!(std::fs::read_to_string(place.path().join("result")).unwrap(), "older", "{words}");
        let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

/// The command has the limit too, and the signal ends it as before.
#[test]
fn limit_of_file_sizes_fails_a_lock_with_its_name_and_still_ends_the_command() {
    let place = Place::new();
    let said = place.shell("ulimit -f 8; \"$0\" run x -- echo ran");
    assert!(said.code(69).err.contains("the limit of file sizes (ulimit -f)"), "{}", said.err);
    let place = Place::with_store("memory:");
    let said = place.shell("ulimit -f 1; \"$0\" run x -- sh -c 'head -c 9999 /dev/zero > file; exit $?'");
    assert_eq!(said.code, Some(128 + 25), "{said:?}");
}
