//! F1, F2, L4: tokens against the order of time.

use super::Checker;
use super::locks::{Largest, Lock};
use super::report::Rule;
use crate::history::{AcquireOutcome, Acquisition};
use crate::time_scale::nanos;
use leasehold_core::{LockMode, Sharing};

impl Checker<'_> {
    /// True if the tokens of these grants are unique and grow, whatever their modes.
    pub(super) fn check_tokens(&mut self, lock: &Lock<'_>) -> bool {
        let mut by_token = lock.grants.clone();
        by_token.sort_unstable_by_key(|grant| (grant.hold.token, grant.answered_by()));
        let mut sound = true;
        for pair in by_token.windows(2).filter(|pair| pair[0].hold.token == pair[1].hold.token) {
            sound = false;
            let what = format!("{} was granted twice", pair[0].hold.token);
            self.two_grants(Rule::TokenUnique, lock, pair[0], pair[1], what);
        }
        let inverted = inversions(&lock.grants, |_| LockMode::Exclusive, Acquisition::answered_by);
        for (older, newer) in &inverted {
            let (first, second) = (older.hold.token, newer.hold.token);
            let what = format!("{second} was granted after {first} was answered");
            self.two_grants(Rule::TokenOrder, lock, older, newer, what);
        }
        sound && inverted.is_empty()
    }

    /// Waiters are served as is declared: in their order, or no readers before a writer that waits.
    pub(super) fn check_turns(&mut self, lock: &Lock<'_>) {
        let inverted = match (self.model.order.map(nanos), self.model.sharing) {
            (Some(settled), _) => {
                let waited = lock.grants.iter().copied().filter(|grant| grant.wait != Some(0));
                let settled = |grant: &Acquisition| grant.asked_at.saturating_add(settled);
                inversions(&waited.collect::<Vec<_>>(), |grant| grant.mode, settled)
            }
            (None, Sharing::WriterFirst) => passed_writers(lock, nanos(self.model.overshoot)),
            _ => return,
        };
        for (first, second) in inverted {
            let earlier = (second.asked_at - first.asked_at) / 1_000_000;
            let tokens = (first.hold.token, second.hold.token);
            let what = format!("{} came {earlier} ms before {}, and was served after it", tokens.0, tokens.1);
            self.two_grants(Rule::Order, lock, first, second, what);
        }
    }

    fn two_grants(
        &mut self,
        rule: Rule,
        lock: &Lock<'_>,
        one: &Acquisition,
        other: &Acquisition,
        what: String,
    ) {
        let at = one.answered_by().max(other.answered_by());
        self.report.broken(rule, &lock.name, at, &[one.id(), other.id()], what);
    }
}

/// Two acquisitions: the second one came later, and was served before the first.
type Inversion<'a> = (&'a Acquisition, &'a Acquisition);

/// Writers that wait for readers alone, each with the last reader that came later and was served earlier. The mark of a writer may
/// lapse for a moment, so two such readers must have come at times that are `settled` apart.
fn passed_writers<'a>(lock: &Lock<'a>, settled: u64) -> Vec<Inversion<'a>> {
    let mut writers: Vec<&Acquisition> =
        lock.all.iter().copied().filter(|one| !one.mode.is_shared()).collect();
    let mut readers: Vec<&Acquisition> =
        lock.grants.iter().copied().filter(|one| one.mode.is_shared()).collect();
    writers.sort_unstable_by_key(|one| one.asked_at);
    readers.sort_unstable_by_key(|reader| reader.asked_at);
    let (mut over, mut passed) = (0, Vec::new());
    for (place, writer) in writers.iter().copied().enumerate() {
        let (asked, by) = (writer.asked_at, writer.answered_by());
        let is_alone = over < asked && writers.get(place + 1).is_none_or(|next| next.asked_at > by);
        over = over.max(over_by(writer, settled));
        if !is_alone || !writer.is_granted() || writer.wait == Some(0) {
            continue;
        }
        let known = asked.saturating_add(settled);
        let later = &readers[readers.partition_point(|reader| reader.asked_at <= known)..];
        let later = later.iter().copied().take_while(|reader| reader.asked_at < by);
        let passing: Vec<_> = later.filter(|reader| reader.hold.token < writer.hold.token).collect();
        if let [first, .., last] = passing[..]
            && last.asked_at - first.asked_at > settled
        {
            passed.push((writer, last));
        }
    }
    passed
}

/// When an acquisition, and what was granted to it, was certainly over.
fn over_by(one: &Acquisition, settled: u64) -> u64 {
    match one.outcome {
        AcquireOutcome::Granted => one.hold.released_at().unwrap_or(u64::MAX),
        AcquireOutcome::Contended | AcquireOutcome::Failed => one.answered_by().saturating_add(settled),
        AcquireOutcome::Unknown => u64::MAX,
    }
}

/// Grants whose question came after another's moment, and whose token is smaller than its, each with one such other, if their
/// modes conflict.
fn inversions<'a>(
    grants: &[&'a Acquisition],
    mode: impl Fn(&Acquisition) -> LockMode,
    moment: impl Fn(&Acquisition) -> u64,
) -> Vec<Inversion<'a>> {
    let mut by_question = grants.to_vec();
    by_question.sort_unstable_by_key(|grant| grant.asked_at);
    let mut by_moment = grants.to_vec();
    by_moment.sort_unstable_by_key(|grant| moment(grant));
    let mut earlier = by_moment.into_iter().peekable();
    let mut largest = Largest::NONE;
    let mut inverted = Vec::new();
    for grant in by_question {
        while let Some(before) = earlier.next_if(|before| moment(before) < grant.asked_at) {
            largest.add(mode(before), before.hold.token, before);
        }
        if let Some((_, before)) = largest.against(mode(grant)).filter(|(token, _)| *token > grant.hold.token)
        {
            inverted.push((before, grant));
        }
    }
    inverted
}
