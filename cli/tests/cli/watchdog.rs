//! The headline: the command is really stopped. Whoever is killed, whoever is stopped.

use crate::support::{Place, Process, Running, Traced, gone, until};
use leasehold::client::{Clock, Moment, SystemClock};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const TTL: Duration = Duration::from_millis(1500);

/// A command with a child, both of whom ignore TERM, under a lease of [`TTL`].
struct Stubborn {
    place: Place,
    run: Running,
    processes: [Process; 2],
    /// Before the lock was asked for: no lease of it that was not renewed lasts longer than a ttl from here.
    began: Moment,
}

impl Stubborn {
    fn start(options: &[&str]) -> Self {
        Self::watched(Place::new(), options, |_| {})
    }

    /// Its processes are looked for after `watch`, which is given the one that becomes its watchdog.
    fn watched(place: Place, options: &[&str], watch: impl FnOnce(Process)) -> Self {
        let began = SystemClock::new().now();
        let mut words = vec!["-v", "run", "--ttl", "1500ms"];
        words.extend(options);
        let script = "trap '' TERM; sh -c 'echo child $$; while :; do sleep 1000; done' & echo pid $$; while :; do wait; done";
        words.extend(["x", "--", "sh", "-c", script]);
        let mut run = place.start(&words);
        watch(run.watchdog());
        let mut numbers = [run.line(""), run.line("")];
        numbers.sort();
        let parse = |line: &str| Process::parse(line.split_whitespace().last().unwrap());
        let processes = [parse(&numbers[0]), parse(&numbers[1])];
        Self { place, run, processes, began }
    }

    /// Waits until the next holder's command has begun, and answers whether anything of this one's lived then.
    fn overlapped(&self) -> bool {
        let mut next = self.place.start(["-q", "run", "x", "--", "sh", "-c", "echo mine; exec sleep 1000"]);
        next.line("mine");
        self.processes.iter().any(|process| process.lives())
    }
}

#[test]
fn leasehold_killed_its_command_dies_before_the_lock_passes_on() {
    let stubborn = Stubborn::start(&[]);
    stubborn.run.signal(Signal::KILL);
    assert!(!stubborn.overlapped());
}

#[test]
fn leasehold_killed_a_command_that_listens_is_gone_long_before_the_lease() {
    let place = Place::new();
    let mut run =
        place.start(["run", "--ttl", "1h", "x", "--", "sh", "-c", "sleep 1000 & echo pid $!; wait"]);
    let child = run.process_line("pid ");
    let watchdog = run.watchdog();
    let command = watchdog.child().unwrap();
    run.signal(Signal::KILL);
    gone(&[child, command, watchdog]);
    // Nobody could give the lock back; that is what the lease is for.
    assert!(place.is_held("x"));
}

/// A watchdog to be, with an order to say that it ran, and the other end of its link.
fn ordered(place: &Place, on_lost: &str, lease_end: u64) -> (Command, UnixStream) {
    let (mut leasehold, link) = UnixStream::pair().unwrap();
    let times = r#""grace":{"secs":0,"nanos":0},"reserve":{"secs":1,"nanos":0}"#;
    let terms = format!(r#"{{"on_lost":"{on_lost}",{times},"dies_with_holder":true}}"#);
    let start = format!(r#"{{"environment":[],"secrets":[],"terms":{terms},"lease_end":{lease_end}}}"#);
    writeln!(leasehold, r#"{{"Start":{start}}}"#).unwrap();
    let mut watchdog = place.command(["0", "/bin/echo", "echo", "ran"]);
    watchdog.arg0("leasehold-watchdog").stdin(OwnedFd::from(link));
    (watchdog, leasehold)
}

/// The watchdog may hear the order late, when a lock that ends with its holder is somebody else's already.
/// What is left alone shows whether it ran.
#[test]
fn leasehold_killed_behind_its_order_to_start_nothing_is_started() {
    let place = Place::new();
    let (watchdog, leasehold) = ordered(&place, "Warn", u64::MAX);
    drop(leasehold);
    Running::start(watchdog).wait().expect(0, "", "");
}

/// As if both were stopped between the grant and the start. To warn is to leave alone what runs, and nothing does yet.
#[test]
fn nothing_is_started_after_the_lease_whatever_is_done_when_it_is_lost() {
    let place = Place::new();
    for on_lost in ["Term", "Kill", "Warn"] {
        let (watchdog, leasehold) = ordered(&place, on_lost, 1);
        Running::start(watchdog).wait().expect(0, "", "");
        let mut report = String::new();
        BufReader::new(leasehold).read_line(&mut report).unwrap();
        assert_eq!(report, "\"TooLate\"\n", "{on_lost}");
    }
}

/// As if the disk did not answer on which it is: its exec is what the watchdog waits for.
#[test]
fn leasehold_killed_a_command_that_starts_slowly_does_not_begin_after_the_lease() {
    let place = Place::new();
    let mut holder = place.hold("x");
    let run = place.start(["-v", "run", "--ttl", "1500ms", "x", "--", "echo", "ran"]);
    run.warned("waiting: ");
    let watchdog = Traced::hold(run.watchdog());
    holder.end_input();
    let command = watchdog.hold_its_child();
    run.signal(Signal::KILL);
    until("the lease is over", || !place.is_held("x"));
    assert!(command.gives_up());
}

#[test]
fn leasehold_stopped_its_command_is_gone_before_the_lease_ends_and_it_says_so_when_it_goes_on() {
    let stubborn = Stubborn::start(&[]);
    let clock = SystemClock::new();
    stubborn.run.signal(Signal::STOP);
    // A renewal may have been confirmed just before.
    let lease_end = clock.now().plus(TTL);
    gone(&stubborn.processes);
    assert!(clock.now() < lease_end, "the lease was over before the command was");
    assert!(!stubborn.overlapped());
    stubborn.run.signal(Signal::CONT);
    let said = stubborn.run.wait();
    said.code(80);
    assert!(said.err.contains("error[E_LOST]: lock \"x\" was lost after "), "{}", said.err);
    assert!(said.err.contains(" was killed"), "{}", said.err);
}

#[test]
fn the_watchdog_killed_leasehold_kills_the_group_itself() {
    let stubborn = Stubborn::start(&[]);
    stubborn.run.warned("started pid ");
    stubborn.run.watchdog().signal(Signal::KILL);
    let said = stubborn.run.wait();
    assert!(!stubborn.processes.iter().any(|process| process.lives()));
    said.code(70);
    assert!(said.err.contains("error[E_INTERNAL]: the watchdog was killed\n"), "{}", said.err);
    assert!(!stubborn.place.is_held("x"));
}

/// A command works from its first moment on, and only then does the watchdog report that it runs.
#[test]
fn the_watchdog_killed_before_its_report_leaves_nothing_of_the_command() {
    let place = Place::new();
    let mut holder = place.hold("x");
    let mut watchdog = None;
    let stubborn = Stubborn::watched(place, &[], |process| {
        let watchdog = watchdog.insert(Traced::hold(process));
        holder.end_input();
        watchdog.go_to_fork();
    });
    watchdog.unwrap().kill();
    let said = stubborn.run.wait();
    assert!(!stubborn.processes.iter().any(|process| process.lives()));
    said.code(70);
    assert!(said.err.contains("error[E_INTERNAL]: the watchdog was killed"), "{}", said.err);
    assert!(!stubborn.place.is_held("x"));
}

/// Nobody confirms the lease meanwhile, either: the lock is free when it ends.
#[test]
fn the_watchdog_stopped_before_its_report_does_not_keep_the_command_alive_beyond_the_lease() {
    let (place, redis) = Place::with_redis();
    let mut holder = place.hold("x");
    let mut watchdog = None;
    let stubborn = Stubborn::watched(place, &[], |process| {
        let watchdog = watchdog.insert(Traced::hold(process));
        holder.end_input();
        watchdog.go_to_fork();
    });
    drop(redis);
    let clock = SystemClock::new();
    let lease_end = clock.now().plus(TTL);
    gone(&stubborn.processes);
    assert!(clock.now() < lease_end, "the lease was over before the command was");
    drop(watchdog);
    stubborn.run.wait().code(70);
}

/// A script may have started others before it became `leasehold` by exec.
#[test]
fn whoever_kills_for_the_watchdog_spares_what_is_not_the_commands() {
    let place = Place::new();
    let mut command = Command::new("bash");
    place.settle(&mut command);
    let script = "sleep 1000 & echo stranger $!; exec \"$0\" run x -- sh -c 'echo pid $$; exec sleep 1000'";
    command.args(["-c", script, env!("CARGO_BIN_EXE_leasehold")]);
    let mut run = Running::start(command);
    let stranger = run.process_line("stranger ");
    let command = run.process_line("pid ");
    until("the watchdog is found", || command.parent().is_some());
    command.parent().unwrap().signal(Signal::KILL);
    gone(&[command]);
    until("leasehold has ended", || !run.is_running());
    assert!(stranger.lives());
    stranger.signal(Signal::KILL);
}

/// A `leasehold` that runs this when its lock is free, and an orphan that came to it from an earlier child of its process.
fn beside_an_orphan(place: &Place, command: &str) -> (Running, Process) {
    let mut holder = place.hold("x");
    let mut script = Command::new("bash");
    place.settle(&mut script);
    let earlier = "(sleep 1000 & echo stranger $!; until [ -e go ]; do sleep 0.01; done) &";
    let call = format!("{earlier} exec \"$0\" run -v x -- {command}");
    script.args(["-c", &call, env!("CARGO_BIN_EXE_leasehold")]);
    let mut run = Running::start(script);
    let stranger = run.process_line("stranger ");
    run.warned("waiting: \"x\" is held by ");
    place.file("go", "");
    until("its parent has ended", || stranger.parent() == Some(run.process()));
    holder.end_input();
    holder.wait().code(0);
    (run, stranger)
}

/// As a daemon that the script has started: its parent ends when it is ready.
#[test]
fn whoever_kills_for_the_watchdog_spares_what_others_have_left() {
    let place = Place::new();
    let (mut run, stranger) = beside_an_orphan(&place, "sh -c 'echo pid $$; exec sleep 1000'");
    let command = run.process_line("pid ");
    until("the watchdog is found", || command.parent().is_some());
    command.parent().unwrap().signal(Signal::KILL);
    gone(&[command]);
    until("leasehold has ended", || !run.is_running());
    assert!(stranger.lives());
    stranger.signal(Signal::KILL);
}

#[test]
fn a_command_that_cannot_be_started_is_nobodys_end() {
    let place = Place::new();
    let file = place.file("bad", "#!/there/is/no/such/interpreter\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (mut run, stranger) = beside_an_orphan(&place, "./bad");
    until("leasehold has ended", || !run.is_running());
    assert!(stranger.lives());
    stranger.signal(Signal::KILL);
}

/// The watchdog has seen its end, within the lease; nobody was there to give the lock back, and it ended after it.
#[test]
fn leasehold_stopped_a_command_that_ends_in_time_was_covered() {
    let place = Place::new();
    let mut command =
        place.command(["run", "-v", "--ttl", "3s", "x", "--", "sh", "-c", "echo ready; read line; exit 3"]);
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.line("ready");
    run.warned("started pid");
    run.signal(Signal::STOP);
    until("it stands still", || run.process().is_stopped());
    run.write("go\n");
    until("the lease has ended", || !place.is_held("x"));
    run.signal(Signal::CONT);
    let said = run.wait();
    assert!(!said.code(3).err.contains("lost"), "{}", said.err);
}

#[test]
fn the_watchdog_stopped_leasehold_does_its_work_when_the_lock_is_lost() {
    let stubborn = Stubborn::start(&[]);
    stubborn.run.watchdog().signal(Signal::STOP);
    stubborn.place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    let said = stubborn.run.wait();
    assert!(!stubborn.processes.iter().any(|process| process.lives()));
    said.code(80);
}

#[test]
fn both_killed_in_one_stroke_the_kernel_kills_the_command() {
    let stubborn = Stubborn::start(&[]);
    let watchdog = stubborn.run.watchdog();
    let command = watchdog.child().unwrap();
    stubborn.run.signal(Signal::STOP);
    watchdog.signal(Signal::KILL);
    gone(&[command]);
    // What the command had started itself lives on, a shell that sleeps in a process of its own.
    for process in stubborn.processes.into_iter().filter(|process| process.lives()) {
        until("it sleeps", || process.child().is_some());
        let sleeping = process.child();
        process.signal(Signal::KILL);
        sleeping.into_iter().for_each(|sleeping| sleeping.signal(Signal::KILL));
    }
}

#[test]
fn a_signal_for_everybody_does_not_end_the_one_in_between() {
    let place = Place::new();
    let mut run = place.start([
        "run",
        "x",
        "--",
        "bash",
        "-c",
        "trap 'echo got TERM' TERM; echo ready; while :; do sleep 0.01; done",
    ]);
    run.line("ready");
    let watchdog = run.watchdog();
    for signal in [
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
        Signal::TSTP,
        Signal::TTIN,
        Signal::TTOU,
        Signal::USR1,
    ] {
        watchdog.signal(signal);
    }
    run.signal(Signal::TERM);
    run.line("got TERM");
    assert!(watchdog.lives() && !watchdog.is_stopped());
    assert!(run.is_running());
}

#[test]
fn the_stores_word_ends_the_command_long_before_its_lease_would() {
    let place = Place::new();
    let mut run = place.start([
        "run",
        "--ttl",
        "9s",
        "--grace",
        "0s",
        "x",
        "--",
        "sh",
        "-c",
        "echo pid $$; exec sleep 1000",
    ]);
    let command = run.process_line("pid ");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    let since = SystemClock::new().now();
    gone(&[command]);
    // A loss is heard with the next renewal, when a third of the lease is over; two thirds were left of it at least.
    let took = SystemClock::new().now().since(since);
    assert!(took < Duration::from_millis(4_500), "{took:?}");
    run.wait().code(80);
}

#[test]
fn to_kill_leaves_no_time_to_listen() {
    let place = Place::new();
    let script = "trap 'echo listened; exit' TERM; echo pid $$; while :; do sleep 0.01; done";
    let mut run = place.start(["run", "--ttl", "900ms", "--on-lost", "kill", "x", "--", "sh", "-c", script]);
    let command = run.process_line("pid ");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    let said = run.wait();
    assert!(!said.code(80).out.contains("listened"));
    assert!(!command.lives());
}

/// And is said to the end, also to who wants to hear of failures only.
#[test]
fn to_warn_leaves_the_command_alone() {
    let place = Place::new();
    let status = place.path().join("status");
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 3>\"$0\"; exec \"$@\""])
        .arg(&status)
        .arg(env!("CARGO_BIN_EXE_leasehold"))
        .args([
            "-q",
            "run",
            "--status-fd",
            "3",
            "--ttl",
            "900ms",
            "--on-lost",
            "warn",
            "x",
            "--",
            "sh",
            "-c",
            "echo ready; read go; exit 5",
        ]);
    place.settle(&mut command);
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.line("ready");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    run.warned("warning: lock \"x\" was lost: the store no longer has it\n");
    run.write("go\n");
    let said = run.wait();
    assert!(!said.code(5).err.contains("help"), "{}", said.err);
    let told = std::fs::read_to_string(status).unwrap();
    assert_eq!(told, "{\"outcome\":\"ended\",\"command\":5,\"code\":5,\"lost\":true}\n");
}

#[test]
fn a_command_that_listens_has_the_whole_grace() {
    let place = Place::new();
    let script = "trap 'sleep 0.5; echo cleaned up; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let mut run = place.start(["run", "--ttl", "6s", "--grace", "1s", "x", "--", "bash", "-c", script]);
    run.line("ready");
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    let said = run.wait();
    assert!(said.code(80).out.contains("cleaned up"));
    assert!(said.err.contains(" has ended, "), "{}", said.err);
}

/// `timeout` makes a process group of its own, as every job of an interactive shell is one.
#[test]
fn what_has_left_the_group_is_stopped_too() {
    let place = Place::new();
    let script = "timeout 1000 sh -c 'trap \"\" TERM; echo inner $$; while :; do sleep 1000; done' & setsid sh -c 'echo daemon $$; exec sleep 1000' & wait";
    let mut run = place.start(["run", "--ttl", "900ms", "x", "--", "bash", "-c", script]);
    let numbers =
        [run.line(""), run.line("")].map(|line| Process::parse(line.split_whitespace().last().unwrap()));
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    run.wait().code(80);
    assert!(!numbers.iter().any(|process| process.lives()));
}

#[test]
fn a_command_that_was_suspended_is_stopped_all_the_same() {
    let place = Place::new();
    let mut run =
        place.start(["run", "--ttl", "900ms", "x", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    let command = run.process_line("pid ");
    command.signal(Signal::STOP);
    until("it is suspended", || command.is_stopped());
    place.say(["-q", "release", "--force", "--yes", "x"]).code(0);
    run.wait().code(80);
    assert!(!command.lives());
}

#[test]
fn the_longest_hold_is_the_end_of_the_command_and_the_lock_is_given_back() {
    let place = Place::new();
    let began = SystemClock::new().now();
    let mut run =
        place.start(["run", "--max-hold", "600ms", "x", "--", "sh", "-c", "echo pid $$; exec sleep 1000"]);
    let command = run.process_line("pid ");
    let said = run.wait();
    assert!(!command.lives());
    assert!(SystemClock::new().now().since(began) >= Duration::from_millis(300));
    said.code(80);
    assert!(said.err.contains(": it was held for as long as its holder allowed\n"), "{}", said.err);
    assert!(said.err.contains("  help     raise --max-hold, or split the work\n"), "{}", said.err);
    assert!(!place.is_held("x"));
}

#[test]
fn short_leases_are_renewed_for_as_long_as_the_command_runs() {
    let stubborn = Stubborn::start(&["--grace", "0s"]);
    until("three leases would have ended", || SystemClock::new().now().since(stubborn.began) > TTL * 3);
    assert!(stubborn.processes.iter().all(|process| process.lives()));
    assert!(stubborn.place.is_held("x"));
}
