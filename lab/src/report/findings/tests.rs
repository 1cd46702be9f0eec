//! What is broken, late and not judged, in the verdict on a store, on its card, and in the tables and answers.

use super::{Answer, Card, Datum, Findings};
use crate::format::fault;
use crate::measure::{LeftOut, Plan, RowResult};
use crate::report::{Declared, NotRun, Report, StoreReport, Verdict};
use leasehold::backend::{LockBackend, MemoryBackend};
use leasehold::semantics::{CrashBound, Fault, LossSignal, Outcome, Reach};
use leasehold_conformance::CaseResult;
use leasehold_conformance::matrix::Cell;
use serde_json::{Value, json};

fn is(kind: &str) -> Value {
    json!({"is": kind, "why": "it"})
}

fn case(id: &str, kind: &str) -> CaseResult {
    let case = json!({"subject": "x", "case": id, "property": "p", "outcome": is(kind), "took_ms": 7});
    serde_json::from_value(case).unwrap()
}

/// A fault that was made, and met a hold.
fn cell(fault: Fault, kind: &str) -> Cell {
    let cell = json!({
        "subject": "x", "fault": fault, "promised": "holds", "measured": "holds", "state": is(kind), "words": "",
        "figures": {"detected_ms": 7.0, "recovered_ms": 7.0}, "seed": 7, "took_ms": 7,
    });
    serde_json::from_value(cell).unwrap()
}

/// Many locks that were held.
fn held(lost: usize, cpu: f64) -> RowResult {
    let held = json!({"lost": lost, "bytes_each": null, "client_cpu_at_30s": cpu});
    let row = json!({"row": "held@1000", "overlaps": 0, "stale_tokens": 0, "held": held});
    serde_json::from_value(row).unwrap()
}

fn store(name: &str) -> StoreReport {
    let declared = Some(Declared::of(&MemoryBackend::new().semantics()));
    StoreReport { declared, ..StoreReport::named(name) }
}

fn seen(cases: &[&str], cells: &[&str]) -> StoreReport {
    let cases = cases.iter().map(|kind| case("A01", kind)).collect();
    let cells = cells.iter().map(|kind| cell(Fault::HolderPaused, kind)).collect();
    StoreReport { cases, cells, ..store("x") }
}

fn findings(stores: impl Into<Vec<StoreReport>>) -> Findings {
    let plan = Plan::comparing(true, None, true);
    Findings::of(&Report { stores: stores.into(), ..Report::begin(&plan, Some(7), true, Vec::new()) })
}

fn answer(stores: impl Into<Vec<StoreReport>>, question: &str) -> Answer {
    let mut answers = findings(stores).answers.unwrap().into_iter();
    answers.find(|answer| answer.question.contains(question)).unwrap()
}

fn card(store: StoreReport) -> Card {
    findings([store]).cards.pop().unwrap()
}

#[test]
fn verdict_is_the_worst_of_all_cases() {
    let verdict = |cases: &[&str], cells: &[&str]| seen(cases, cells).verdict();
    assert_eq!(verdict(&["failed", "late", "not-judged"], &[]), Verdict::Broken);
    assert_eq!(verdict(&["late"], &["broken", "void"]), Verdict::Broken);
    assert_eq!(verdict(&["late", "not-judged"], &[]), Verdict::Late);
    assert_eq!(verdict(&["not-judged"], &["late", "void"]), Verdict::Late);
    assert_eq!(verdict(&["passed", "not-judged"], &[]), Verdict::NotJudged);
    for open in ["not-judged", "void"] {
        assert_eq!(verdict(&["passed"], &[open]), Verdict::NotJudged, "{open}");
    }
    assert_eq!(verdict(&["passed", "skipped"], &["kept", "better", "not-run"]), Verdict::AsDeclared);
}

#[test]
fn verdict_counts_failures_of_the_bench() {
    let of = |row: RowResult| {
        let mut store = store("x");
        store.speed.rows.push(row);
        (store.verdict(), card(store).violations.len())
    };
    assert_eq!(of(held(0, 0.1)), (Verdict::AsDeclared, 0));
    assert_eq!(of(held(1, 0.1)), (Verdict::NotJudged, 0));
    assert_eq!(of(RowResult { overlaps: 1, ..held(0, 0.1) }), (Verdict::Broken, 1));
    assert_eq!(of(RowResult { stale_tokens: 1, ..held(0, 0.1) }), (Verdict::Broken, 1));
}

#[test]
fn store_whose_speed_could_not_be_measured_to_the_end_is_not_judged() {
    let mut store = seen(&["passed"], &[]);
    store.speed.left_out.push(LeftOut::new(LeftOut::THE_REST, "connection refused"));
    assert_eq!(store.verdict(), Verdict::NotJudged);
    let card = card(store);
    assert_eq!(card.headline, "1 case passed; 1 measurement of speed not finished");
    assert!(
        card.points.contains(&"not measured: speed (connection refused)".to_owned()),
        "{:?}",
        card.points
    );
}

#[test]
fn cell_that_is_late_or_open_is_not_judged_and_a_case_counts_only_if_it_passed() {
    for (kind, is_judged) in [
        ("kept", true),
        ("better", true),
        ("broken", true),
        ("late", false),
        ("void", false),
        ("not-judged", false),
    ] {
        assert_eq!(seen(&[], &[kind]).judged_cell(Fault::HolderPaused).is_some(), is_judged, "{kind}");
    }
    for kind in ["passed", "late", "failed", "not-judged", "skipped"] {
        assert_eq!(seen(&[kind], &[]).has_passed("A01"), kind == "passed", "{kind}");
    }
}

#[test]
fn card_counts_late_and_open_cases_and_names_failed_ones() {
    let of = |cases: &[&str], cells: &[&str]| {
        let card = card(seen(cases, cells));
        (card.headline, card.violations.len())
    };
    let late =
        |count: &str| format!("{count} missed, also when tried again, by more than the machine was late");
    assert_eq!(of(&["late"], &["late"]), (late("2 bounds"), 0));
    let open = "not judged: the machine was late, a server not ready, or the fault met nothing";
    assert_eq!(of(&["not-judged"], &[]), (format!("1 case {open}"), 0));
    let open = "not judged: the machine was late, or a server not ready";
    assert_eq!(of(&[], &["not-judged"]), (format!("1 fault {open}"), 0));
    assert_eq!(of(&[], &["void"]), ("1 fault not judged: the fault showed nothing".to_owned(), 0));
    let broken = "1 case failed; 1 promise broken under faults".to_owned();
    assert_eq!(of(&["failed"], &["broken"]), (broken, 2));
}

#[test]
fn store_is_as_declared_only_if_some_of_it_was_tried() {
    let words = |cases: &[&str], cells: &[&str]| card(seen(cases, cells)).words;
    assert_eq!(words(&["passed"], &[]), "as declared");
    assert_eq!(words(&[], &["kept"]), "as declared");
    assert_eq!(words(&[], &[]), "not tried");
    assert_eq!(words(&["skipped"], &[]), "not tried");
    let mut of_speed = store("x");
    of_speed.speed.rows.push(held(0, 0.1));
    assert_eq!(card(of_speed).words, "measured");
}

#[test]
fn table_of_faults_marks_late_and_open_cells() {
    let mark = |kind: &str| {
        let sections = findings([seen(&[], &[kind])]).sections;
        let faults = sections.into_iter().find(|section| section.id == "faults").unwrap();
        let of_fault = |row: &Vec<Datum>| row[0].text == fault(Fault::HolderPaused);
        faults.table.rows.into_iter().find(of_fault).unwrap()[1].mark
    };
    let marks = ["kept", "broken", "late", "void", "not-judged"].map(mark);
    assert_eq!(marks, [Some("●"), Some("✕"), Some("△"), Some("□"), Some("□")]);
}

#[test]
fn evidence_has_cells_that_break_a_promise() {
    let outcomes = |store: StoreReport| -> Vec<String> {
        let sections = findings([store]).sections;
        let evidence = sections.into_iter().find(|section| section.id == "evidence");
        evidence.into_iter().flat_map(|section| section.table.rows).map(|row| row[2].text.clone()).collect()
    };
    assert_eq!(outcomes(seen(&["failed", "late", "not-judged"], &[])), ["failed", "late", "not judged"]);
    let cells = seen(&[], &["broken", "late", "void", "not-judged", "kept"]);
    assert_eq!(outcomes(cells), ["broken", "late", "not judged", "not judged"]);
    let mut again = seen(&["passed", "passed"], &[]);
    again.cases[0].at_first = Some("late".to_owned());
    assert_eq!(outcomes(again), ["passed when run again"]);
}

#[test]
fn late_store_answers_and_a_broken_or_missing_one_does_not() {
    let is_answer = |store: StoreReport| {
        let answers = findings([store]).answers.unwrap();
        answers.iter().any(|answer| answer.store.is_some())
    };
    for kind in ["passed", "late", "not-judged"] {
        assert!(is_answer(seen(&[kind], &[])), "{kind}");
    }
    assert!(!is_answer(seen(&["failed"], &[])));
    let not_run = Some(NotRun { why: "no server".to_owned(), is_late: false });
    assert!(!is_answer(StoreReport { not_run, ..store("x") }));
}

#[test]
fn single_server_that_cannot_fail_over_is_not_ranked_by_its_promise() {
    let of = |name: &str, kind: &str| {
        let mut store = StoreReport { cells: vec![cell(Fault::FailOver, kind)], ..store(name) };
        store.declared.as_mut().unwrap().promises = vec![(Fault::FailOver, Outcome::Holds)];
        store.declared.as_mut().unwrap().reach = Reach::Network;
        store
    };
    let best = answer([of("alone", "not-applicable"), of("several", "kept")], "fail over");
    assert_eq!((best.store.as_deref(), best.as_good.as_slice()), (Some("several"), &[][..]));
    assert_eq!(best.apart, ["cannot happen to: alone"]);
}

#[test]
fn store_that_was_late_is_not_ranked_by_its_promise_and_its_card_keeps_the_risk() {
    let of = |name: &str, kind: &str| {
        let mut store = StoreReport { cells: vec![cell(Fault::FailOver, kind)], ..store(name) };
        store.declared.as_mut().unwrap().promises = vec![(Fault::FailOver, Outcome::FencedOnly)];
        store
    };
    let best = |kind| answer([of("late", kind), of("seen", "kept")], "fail over").store;
    assert_eq!(["late", "not-judged"].map(best), [Some("seen".to_owned()), Some("late".to_owned())]);
    for kind in ["late", "better", "kept"] {
        let points = card(of("x", kind)).points;
        assert!(
            points.iter().any(|point| point.starts_with("needs the token after: ")),
            "{kind}: {points:?}"
        );
    }
}

#[test]
fn winner_is_measured_and_promised() {
    let promising = |name: &str, promised, cells| {
        let mut store = StoreReport { cells, ..store(name) };
        store.declared.as_mut().unwrap().promises = vec![(Fault::FailOver, promised)];
        store
    };
    let lucky = promising("lucky", Outcome::FencedOnly, vec![cell(Fault::FailOver, "better")]);
    let sure = promising("sure", Outcome::Holds, vec![cell(Fault::FailOver, "kept")]);
    let best = answer([lucky, sure], "fail over");
    assert_eq!((best.store.as_deref(), best.as_good.as_slice()), (Some("sure"), &[][..]));
}

#[test]
fn measured_figure_comes_before_a_declared_one_unless_it_is_not_judged() {
    let crashed = |name: &str, cells| {
        let mut store = StoreReport { cells, ..store(name) };
        store.declared.as_mut().unwrap().crash_bound = CrashBound::Connection;
        store
    };
    let measured = |kind| crashed("measured", vec![cell(Fault::HolderKilled, kind)]);
    let best = |kind| answer([crashed("declared", Vec::new()), measured(kind)], "crashed holder").store;
    assert_eq!(best("kept").as_deref(), Some("measured"));
    assert_eq!(best("late").as_deref(), Some("declared"));
    let told = |kind| {
        let store = StoreReport { cells: vec![cell(Fault::RecordDeleted, kind)], ..store("x") };
        let mut answers = findings([store]).answers.unwrap().into_iter();
        answers.any(|answer| answer.figure.contains("after its record was deleted"))
    };
    assert_eq!(["kept", "late", "void"].map(told), [true, false, false]);
}

#[test]
fn store_that_pushes_a_loss_comes_before_one_whose_renewal_told_of_it_sooner() {
    let told = |name: &str, loss_signal, ms: f64| {
        let mut store = StoreReport { cells: vec![cell(Fault::RecordDeleted, "kept")], ..store(name) };
        store.cells[0].figures.detected_ms = Some(ms);
        store.declared.as_mut().unwrap().loss_signal = loss_signal;
        store
    };
    let slow = told("pushing on a busy machine", LossSignal::Push, 2_560.0);
    let best = answer([told("renewing", LossSignal::Renewal, 1_820.0), slow], "told of a loss");
    assert_eq!(best.store.as_deref(), Some("pushing on a busy machine"));
    assert!(best.as_good.is_empty(), "{best:?}");
}

#[test]
fn store_of_one_process_is_never_as_good_as_one_of_several() {
    let [mut of_host, mut of_process] = ["host", "process"].map(store);
    of_host.declared.as_mut().unwrap().reach = Reach::Host;
    of_host.speed.rows.push(held(0, 0.9));
    of_process.speed.rows.push(held(0, 0.1));
    let best = answer([of_process, of_host], "many holds");
    assert_eq!((best.store.as_deref(), best.as_good.as_slice()), (Some("host"), &[][..]));
}

#[test]
fn store_that_lost_locks_is_not_cheapest() {
    let [mut cheap, mut dear] = ["cheap", "dear"].map(store);
    cheap.speed.rows.push(held(1, 0.1));
    dear.speed.rows.push(held(0, 0.9));
    assert_eq!(answer([cheap, dear], "many holds").store.as_deref(), Some("dear"));
}
