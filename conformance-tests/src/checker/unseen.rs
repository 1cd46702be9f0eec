use super::circumstances::{Circumstances, PauseKind};
use super::model::nanos;
use crate::history::{AcquireOutcome, Acquisition};

/// When somebody may have had the lock, or the first place in its queue, without anybody's learning of it.
pub(super) struct Unseen {
    /// Apart from each other, and in order.
    spans: Vec<(u64, u64)>,
}

impl Unseen {
    pub(super) fn new(all: &[&Acquisition], circumstances: &Circumstances<'_>, is_reader: bool) -> Self {
        let spans = all.iter().filter_map(|one| {
            let span = span(one, circumstances);
            // A reader gives way to a writer all the time that it waits.
            let is_in_front = is_reader && !one.mode.is_shared() && one.wait != Some(0);
            is_in_front.then(|| (one.asked_at, span.map_or(one.answered_by(), |(_, end)| end))).or(span)
        });
        let mut spans: Vec<(u64, u64)> = spans.collect();
        spans.sort_unstable();
        spans.dedup_by(|next, before| {
            let touch = next.0 <= before.1;
            if touch {
                before.1 = before.1.max(next.1);
            }
            touch
        });
        Self { spans }
    }

    /// The longest part of this time in which nobody was there.
    pub(super) fn longest_without(&self, from: u64, to: u64) -> u64 {
        let (mut free, mut longest) = (from, 0);
        let first = self.spans.partition_point(|(_, end)| *end < from);
        for (begin, end) in self.spans[first..].iter().take_while(|(begin, _)| *begin <= to) {
            longest = longest.max(begin.saturating_sub(free));
            free = free.max(*end);
        }
        longest.max(to.saturating_sub(free))
    }
}

fn span(one: &Acquisition, circumstances: &Circumstances<'_>) -> Option<(u64, u64)> {
    let Circumstances { model, kills, .. } = circumstances;
    let (left, takes_leave) = match one.outcome {
        AcquireOutcome::Unknown => {
            let left = one.answered_at.or(kills.get(&one.process).copied()).unwrap_or(u64::MAX);
            (left, one.was_dropped)
        }
        // It stood in line, and is taken out of it after it has given up.
        AcquireOutcome::Contended if one.wait != Some(0) => (one.answered_by(), true),
        _ => return None,
    };
    let leftovers = left.saturating_add(model.crash.map_or(u64::MAX, nanos));
    let moment = nanos(model.wake_up);
    let gone = left.saturating_add(moment);
    let killed = kills.get(&one.process).is_some_and(|at| *at <= gone);
    // A client that gives up without a fault returns a grant that it may have, and would have been told of an earlier grant.
    if takes_leave
        && !killed
        && !circumstances.paused(PauseKind::StalledOrAway, one.process, one.asked_at, leftovers)
    {
        return Some((one.asked_at.max(left.saturating_sub(moment)), gone));
    }
    Some((one.asked_at, leftovers))
}
