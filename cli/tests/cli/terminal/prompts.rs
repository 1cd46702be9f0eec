//! What is shown and asked at a terminal.

use super::CTRL_C;
use crate::support::{Place, Shell, until};

#[test]
fn waiter_at_a_terminal_is_shown_the_holder() {
    let place = Place::new();
    let _holder = place.hold("x");
    let mut shell = Shell::start(&place);
    shell.types("$LH run x -- true");
    shell.sees("leasehold: waiting: \"x\" is held for ");
    shell.presses(CTRL_C);
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=130\n");
}

#[test]
fn forced_release_asks_and_acts_on_yes_alone() {
    let place = Place::new();
    let _holder = place.hold("x");
    let mut shell = Shell::start(&place);
    shell.types("$LH release --force x");
    shell.sees("Take \"x\" away? Its holder may work on until its next renewal. [y/N] ");
    shell.types("");
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=1\n");
    assert!(place.is_held("x"));
    shell.types("$LH release --force x");
    shell.sees("[y/N] ");
    shell.types("y");
    shell.sees("leasehold: \"x\" was taken from its holder\n");
    assert!(!place.is_held("x"));
}

/// Nothing else is released than what was asked about, and nothing is left to do.
#[test]
fn lock_released_during_the_question_is_reported_free() {
    let place = Place::new();
    let mut holder = place.hold("x");
    let mut shell = Shell::start(&place);
    shell.types("$LH release --force x");
    shell.sees("[y/N] ");
    holder.end_input();
    holder.wait().code(0);
    shell.types("y");
    shell.sees("leasehold: \"x\" is free, there is nothing to release\n");
    shell.prompted();
    assert_eq!(shell.runs("echo rc=$?"), "rc=0\n");
}

#[test]
fn table_fits_a_narrow_terminal() {
    let place = Place::new();
    let _held = [place.hold("a name of some length"), place.hold("b")];
    let mut shell = Shell::with_columns(&place, 60);
    let shown = shell.runs("$LH ls");
    assert!(shown.lines().count() > 3, "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 60, "{line}");
    }
}

#[test]
fn narrow_table_breaks_no_name_and_no_token() {
    let place = Place::new();
    let name = format!("job/{}", "long".repeat(15));
    let _held = place.hold(&name);
    let state: serde_json::Value =
        serde_json::from_str(&place.say(["inspect", "--json", &name]).out).unwrap();
    let mut shell = Shell::with_columns(&place, 80);
    let shown = shell.runs("$LH ls");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!((lines.len(), lines[2]), (4, name.as_str()), "{shown}");
    assert!(lines[3].contains(&state["lock"]["token"].to_string()), "{shown}");
    assert!(lines[3].chars().count() <= 80 && lines[3].contains("ada@"), "{shown}");
}

#[test]
fn wait_is_shown_in_one_line_that_is_rewritten() {
    let (place, _server) = Place::with_redis();
    let mut holder = place.hold("x");
    let mut next = place.start(["-q", "run", "x", "--", "sh", "-c", "echo up; read go"]);
    until("it waits", || place.say(["inspect", "x"]).out.contains("waiting"));
    let mut shell = Shell::with_columns(&place, 60);
    shell.types("$LH run x -- echo mine");
    for _ in 0..3 {
        let line = "\rleasehold: waiting (place 2): \"x\" is held for ";
        let between = shell.sees(line);
        assert!(!between.contains('\n') && between.chars().count() + line.len() <= 110, "{between:?}");
    }
    holder.end_input();
    next.line("up");
    let shown = shell.sees("mine\n");
    let (_, erased) = shown.trim_end_matches('\r').rsplit_once('\r').unwrap();
    assert!(shown.ends_with('\r') && erased.trim().is_empty(), "the line is left there: {shown:?}");
}
