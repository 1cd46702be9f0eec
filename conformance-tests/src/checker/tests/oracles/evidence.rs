//! What shows nothing, and what is no history.

use super::super::model;
use super::super::script::Script;
use super::oracle;
use crate::checker::{Least, Model};
use crate::history::{History, HistoryEvent, Step};
use leasehold_core::Fault;

#[test]
fn history_below_the_required_minimum_is_void() {
    let demanding = Model { least: Least { grants: 2, contended: 1, unknown_percent: 40 }, ..model() };
    let verdict = |write: &dyn Fn(&mut Script)| {
        let mut script = Script::default();
        write(&mut script);
        let report = script.check(&demanding);
        assert!(report.violations.is_empty(), "{report}");
        report.void.join("; ")
    };
    let two = |h: &mut Script| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.waited((15, 25), 100, 2);
    };
    assert_eq!(verdict(&two), "");
    let alone = |h: &mut Script| {
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.waited((22, 25), 100, 2);
    };
    assert_eq!(verdict(&alone), "0 met a holder, at least 1");
    let nobody_knows = |h: &mut Script| {
        two(h);
        h.unanswered(30);
        h.unanswered(31);
    };
    assert_eq!(verdict(&nobody_knows), "2 of 4 outcomes are unknown, at most 40 %");
    let few = verdict(&|h| {
        h.grant((10, 12), 1);
        h.refused((13, 14));
    });
    assert_eq!(few, "1 grants, at least 2");
}

#[test]
fn fault_that_met_no_holder_is_void() {
    let write = |fault: Fault, from: u64, to: u64, target: Option<u32>| {
        let mut h = Script::default();
        let first = h.grant((10, 12), 1);
        h.release(first, (20, 22));
        h.fault(fault, from, true, target);
        h.fault(fault, to, false, target);
        let report = h.check(&model());
        assert!(report.violations.is_empty(), "{report}");
        report.is_accepted()
    };
    assert!(write(Fault::HolderPaused, 15, 17, Some(1)));
    assert!(write(Fault::HolderPaused, 15, 17, None));
    assert!(!write(Fault::HolderPaused, 15, 17, Some(2)));
    assert!(!write(Fault::HolderPaused, 21, 30, None));
    assert!(!write(Fault::HolderPaused, 5, 11, None));
    assert!(write(Fault::None, 21, 30, None), "no fault need not meet any");
}

#[test]
fn names_have_nothing_to_do_with_each_other() {
    oracle(&[], |h| {
        h.grant((10, 12), 2);
        h.on("another");
        h.grant((11, 13), 2);
        h.grant((1005, 1007), 3);
    });
}

#[test]
fn answer_without_a_question_is_refused() {
    let answer = Step::Failed { why: "Busy".to_owned() };
    let event = HistoryEvent { at: 1, process: 2, op: 3, step: answer };
    let error = History::from_events(vec![event]).unwrap_err();
    assert_eq!(error, "operation 3 of process 2: an answer without a question");
}
