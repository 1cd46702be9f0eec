//! F1, F2, L4: tokens against the order of time.

use super::report::{Report, Rule, Violation};
use crate::history::{Acquisition, Hold};

type Grant<'a> = (&'a Acquisition, &'a Hold);

/// True if the tokens of these grants of one name are unique and grow.
pub(super) fn check_tokens(name: &str, grants: &[Grant<'_>], report: &mut Report) -> bool {
    let mut by_token = grants.to_vec();
    by_token.sort_unstable_by_key(|(grant, hold)| (hold.token, grant.answered_by()));
    let mut sound = true;
    for pair in by_token.windows(2).filter(|pair| pair[0].1.token == pair[1].1.token) {
        sound = false;
        let what = || format!("{} was granted twice", pair[0].1.token);
        report.broken(Rule::TokenUnique, || violation(Rule::TokenUnique, name, pair[0], pair[1], what()));
    }
    let inverted = inversions(grants, |(grant, _)| grant.answered_by());
    for (older, newer) in &inverted {
        let what = || format!("{} was granted after {} was answered", newer.1.token, older.1.token);
        report.broken(Rule::TokenOrder, || violation(Rule::TokenOrder, name, *older, *newer, what()));
    }
    sound && inverted.is_empty()
}

/// Whoever came earlier by `settled`, and waited, was served earlier.
pub(super) fn check_fifo(name: &str, grants: &[Grant<'_>], settled: u64, report: &mut Report) {
    let waiting = |grant: &Grant<'_>| grant.0.wait != Some(0);
    let waited: Vec<Grant<'_>> = grants.iter().copied().filter(waiting).collect();
    for (first, second) in inversions(&waited, |(grant, _)| grant.asked_at.saturating_add(settled)) {
        let what = || {
            let earlier = (second.0.asked_at - first.0.asked_at) / 1_000_000;
            format!("{} came {earlier} ms before {}, and was served after it", first.1.token, second.1.token)
        };
        report.broken(Rule::Order, || violation(Rule::Order, name, first, second, what()));
    }
}

/// Grants whose question came after another's moment, and whose token is smaller than its, each with one such other.
fn inversions<'a>(grants: &[Grant<'a>], moment: impl Fn(&Grant<'a>) -> u64) -> Vec<(Grant<'a>, Grant<'a>)> {
    let mut by_question = grants.to_vec();
    by_question.sort_unstable_by_key(|(grant, _)| grant.asked_at);
    let mut by_moment = grants.to_vec();
    by_moment.sort_unstable_by_key(&moment);
    let mut earlier = by_moment.into_iter().peekable();
    let mut largest: Option<Grant<'a>> = None;
    let mut inverted = Vec::new();
    for grant in by_question {
        while let Some(before) = earlier.next_if(|before| moment(before) < grant.0.asked_at) {
            if largest.is_none_or(|largest| largest.1.token < before.1.token) {
                largest = Some(before);
            }
        }
        if let Some(before) = largest.filter(|largest| largest.1.token > grant.1.token) {
            inverted.push((before, grant));
        }
    }
    inverted
}

fn violation(rule: Rule, name: &str, one: Grant<'_>, other: Grant<'_>, what: String) -> Violation {
    let operations = vec![(one.0.process, one.0.op), (other.0.process, other.0.op)];
    let at = one.0.answered_by().max(other.0.answered_by());
    Violation { rule, name: name.to_owned(), at, operations, what }
}
