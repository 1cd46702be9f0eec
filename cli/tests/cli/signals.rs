//! Signals that reach `leasehold`: while it waits, while the command runs, and while it gives the lock back.

use crate::support::{Place, Running, gone, until};
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_test_stores::servers::RedisServer;
use rustix::process::Signal;
use std::process::Stdio;

const ENDING: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// consul lock ignored signals until it held the lock (hashicorp/consul#4439).
#[test]
fn signal_ends_the_wait_of_run_and_leaves_nothing_in_the_store() {
    let place = Place::new();
    let mut holder = place.hold("x");
    for signal in ENDING {
        let waiter = place.start_apart(["run", "-v", "x", "--", "echo", "ran"]);
        waiter.warned("waiting: \"x\" is held by ");
        let watchdog = waiter.watchdog();
        waiter.signal(signal);
        let said = waiter.wait();
        assert_eq!((said.code, said.out.as_str()), (Some(128 + signal.as_raw()), ""), "{said:?}");
        gone(&[watchdog]);
    }
    holder.end_input();
    holder.wait().code(0);
    // An interrupted waiter is not granted the lock now.
    place.say(["ls"]).expect(0, "", "");
    place.say(["run", "-n", "x", "--", "echo", "free"]).expect(0, "free\n", "");
}

#[test]
fn signal_ends_the_wait_of_hold() {
    let place = Place::new();
    let _holder = place.hold("x");
    let waiter = place.start(["hold", "-v", "x"]);
    waiter.warned("waiting: \"x\" is held by ");
    waiter.signal(Signal::TERM);
    waiter.wait().code(143);
}

#[test]
fn signal_ends_the_wait_for_a_silent_store() {
    let server = RedisServer::start().unwrap();
    server.pause();
    let place = Place::with_store(format!("{}?timeout=60s&connect_timeout=60s", server.url()));
    let waiter = place.start(["run", "x", "--", "true"]);
    let watchdog = waiter.watchdog();
    until("it listens", || waiter.process().listens_to(Signal::TERM));
    waiter.signal(Signal::TERM);
    // What the store may have granted is asked back, and it does not answer that either: the second word ends it.
    until("the second signal ends it", || {
        waiter.signal(Signal::TERM);
        !waiter.process().lives()
    });
    waiter.wait().code(143);
    gone(&[watchdog]);
}

#[test]
fn signal_ends_the_wait_for_a_stopped_watchdog() {
    let place = Place::new();
    let mut holder = place.hold("x");
    let mut command = std::process::Command::new("sh");
    place.settle(&mut command);
    let script = r#"exec "$0" run -v --ttl 1h --token-fd 3 x -- echo ran 3>token"#;
    command.args(["-c", script, env!("CARGO_BIN_EXE_leasehold")]);
    let waiter = Running::start(command);
    waiter.warned("waiting: \"x\" is held by ");
    let watchdog = waiter.watchdog();
    watchdog.signal(Signal::STOP);
    until("it stands still", || watchdog.is_stopped());
    holder.end_input();
    holder.wait().code(0);
    // The last thing that is done before the order to start.
    let token = place.path().join("token");
    until("the token is told", || std::fs::metadata(&token).is_ok_and(|token| token.len() > 0));
    waiter.signal(Signal::TERM);
    let said = waiter.wait();
    assert_eq!(said.code(70).out, "");
    assert!(!watchdog.lives());
    assert!(!place.is_held("x"));
}

/// etcdctl lock swallows TERM (etcd 3.4, `lock_command.go`).
#[test]
fn every_signal_is_passed_on_to_the_command() {
    let place = Place::new();
    let script = "for s in TERM INT HUP QUIT USR1 USR2 WINCH; do trap \"echo got $s\" $s; done; echo ready
        while :; do sleep 0.01; done";
    let mut run = place.start(["run", "x", "--", "bash", "-c", script]);
    run.line("ready");
    let signals = [("WINCH", Signal::WINCH)]
        .into_iter()
        .chain(["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"].into_iter().zip(ENDING));
    for (name, signal) in signals {
        run.signal(signal);
        run.line(&format!("got {name}"));
    }
    assert!(run.is_running());
    assert!(place.is_held("x"));
}

#[test]
fn command_ended_by_a_signal_gives_run_the_code_of_the_signal() {
    let place = Place::new();
    for signal in ENDING {
        let words = ["-q", "run", "x", "--", "sh", "-c", "ulimit -c 0; echo ready; exec sleep 1000"];
        let mut run = place.start_apart(words);
        run.line("ready");
        run.signal(signal);
        run.wait().expect(128 + signal.as_raw(), "ready\n", "");
        assert!(!place.is_held("x"));
    }
}

/// A grandchild gets what a terminal would have sent it.
#[test]
fn signal_reaches_the_whole_group_of_the_command() {
    let place = Place::new();
    let mut run = place.start(["run", "x", "--", "sh", "-c", "sleep 1000 & echo pid $!; wait"]);
    let grandchild = run.process_line("pid ");
    run.signal(Signal::TERM);
    run.wait().code(143);
    gone(&[grandchild]);
}

/// As of a service manager. The watchdog is stopped meanwhile, so that it sees both signals in one moment, whoever was first.
#[test]
fn signal_to_the_whole_control_group_reaches_the_command_once() {
    let place = Place::new();
    let traps = "trap 'echo got TERM' TERM; trap 'echo got USR1' USR1";
    let script = format!("{traps}; echo pid $$; while :; do sleep 0.01; done");
    let mut run = place.start(["run", "--ttl", "1h", "x", "--", "bash", "-c", &script]);
    let command = run.process_line("pid ");
    let watchdog = run.watchdog();
    watchdog.signal(Signal::STOP);
    until("the watchdog is stopped", || watchdog.is_stopped());
    for process in [&run.process(), &watchdog, &command] {
        process.signal(Signal::TERM);
    }
    watchdog.signal(Signal::CONT);
    run.line("got TERM");
    // Behind whatever is on its way to the command.
    run.signal(Signal::USR1);
    run.line("got USR1");
    assert!(run.has_printed("got TERM\ngot USR1\n"), "the command got it again");
    run.signal(Signal::TERM);
    run.line("got TERM");
}

/// As by `pkill -f`: it finds `leasehold` by a word of the command's, and not a command that has given itself another name.
#[test]
fn signal_by_a_word_of_the_command_line_reaches_a_renamed_command() {
    let place = Place::new();
    let mark = format!("mark-{}", std::process::id());
    let script = "echo pid $$; exec -a renamed sleep 1000";
    let mut run = place.start(["run", "--ttl", "1h", "x", "--", "bash", "-c", script, &mark]);
    let command = run.process_line("pid ");
    let words = || std::fs::read(format!("/proc/{}/cmdline", command.number())).unwrap();
    until("it has its other name", || words().starts_with(b"renamed"));
    let watchdog = run.watchdog();
    watchdog.signal(Signal::STOP);
    until("the watchdog is stopped", || watchdog.is_stopped());
    let found = std::process::Command::new("pkill").args(["-TERM", "-f", &mark]).status().unwrap();
    assert!(found.success());
    watchdog.signal(Signal::CONT);
    run.wait().code(143);
}

/// As a command of `systemd-run --scope`: who signals the control group of `leasehold` does not reach it.
#[test]
fn signal_to_a_control_group_that_the_command_has_left_is_passed_on() {
    let place = Place::new();
    // One hierarchy for all controllers, or one for each (`cgroups(7)`).
    let hierarchies = ["/sys/fs/cgroup/freezer", "/sys/fs/cgroup"].map(std::path::Path::new);
    let hierarchy = hierarchies.into_iter().find(|hierarchy| hierarchy.is_dir()).unwrap();
    let group = hierarchy.join(format!("leasehold-test-{}", std::process::id()));
    std::fs::create_dir(&group).unwrap();
    let moved = format!("echo $$ >{}/cgroup.procs", group.display());
    let script = format!("{moved}; trap 'echo got TERM; exit 0' TERM; echo up; while :; do sleep 0.01; done");
    let mut run = place.start(["run", "--ttl", "1h", "x", "--", "bash", "-c", &script]);
    run.line("up");
    let watchdog = run.watchdog();
    watchdog.signal(Signal::STOP);
    until("the watchdog is stopped", || watchdog.is_stopped());
    for process in [&run.process(), &watchdog] {
        process.signal(Signal::TERM);
    }
    watchdog.signal(Signal::CONT);
    run.line("got TERM");
    run.wait().code(0);
    until("the group is empty", || std::fs::remove_dir(&group).is_ok());
}

#[test]
fn hangup_under_nohup_does_not_reach_the_command() {
    let place = Place::new();
    let mut command = std::process::Command::new("sh");
    place.settle(&mut command);
    let script = r#"trap '' HUP; exec "$0" run x -- sh -c 'echo ready; read go; echo still here'"#;
    command.args(["-c", script, env!("CARGO_BIN_EXE_leasehold")]).stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.line("ready");
    run.signal(Signal::HUP);
    run.write("go\n");
    run.line("still here");
}

/// The mistake of consul lock: a handler that is there only while the command runs (hashicorp/consul#800).
#[tokio::test(flavor = "multi_thread")]
async fn signals_during_the_release_do_not_break_it() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let place = Place::with_store(format!("redis://{}?timeout=20s", proxy.address()));
    let mut command = place.command(["run", "x", "--", "sh", "-c", "echo ready; read go; exit 5"]);
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.line("ready");
    let watchdog = run.watchdog();
    proxy.set(Traffic::BlackHole);
    let asked = proxy.request_bytes();
    run.write("go\n");
    until("the release is asked for", || proxy.request_bytes() > asked);
    for signal in ENDING {
        run.signal(signal);
    }
    assert!(run.is_running());
    proxy.set(Traffic::Pass);
    run.wait().expect(5, "ready\n", "");
    gone(&[watchdog]);
    assert_eq!(server.command(&["EXISTS", "leasehold:x"]).unwrap(), ":0");
}
