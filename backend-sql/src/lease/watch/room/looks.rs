//! What a look brings, or news of the lock from elsewhere.

use super::{GRACE, Room, Seen};
use crate::lease::watch::rooms::Held;
use crate::lease::watch::runs::jittered;
use leasehold_core::OwnerId;
use std::time::Duration;
use tokio::time::Instant;

/// What rings while this process has the lock is most likely the echo of what it gave up itself.
const ECHO: Duration = Duration::from_millis(10);

impl Room {
    /// A look is sent. When the next one is due depends on its answer, or on what is heard before that.
    pub(in crate::lease::watch) fn looks(&mut self, now: Instant) {
        (self.is_old, self.is_looking) = (false, true);
        self.looked_at = now;
        self.due = now + self.longest;
    }

    /// A look that has no answer will have none.
    pub(in crate::lease::watch) fn looks_anew(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_looking) {
            self.look_by(now);
        }
    }

    /// The look did not come about. Nobody is woken.
    pub(in crate::lease::watch) fn failed(&mut self, now: Instant) {
        self.seen = None;
        (self.looks_fail, self.is_looking) = (true, false);
        self.due = now + self.longest;
    }

    /// A look has found it free. True if nobody of this process is there to take it, and others were not told.
    #[must_use]
    pub(in crate::lease::watch) fn found_free(&mut self, now: Instant) -> bool {
        (self.looks_fail, self.is_looking) = (false, false);
        if self.is_old && self.is_ours(now) {
            self.due = now + ECHO;
            return false;
        }
        self.seen = None;
        self.rivals.none_was_quicker();
        self.wake_first(now);
        self.turn.is_none() && std::mem::take(&mut self.owes_word)
    }

    /// A look has found it held.
    pub(in crate::lease::watch) fn found_held(&mut self, held: Held, now: Instant) {
        (self.looks_fail, self.is_looking, self.free_looks) = (false, false, 0);
        let believed_until = if self.is_old {
            // What has happened since may be news, or it was this process. Either has said when to look.
            if self.is_ours(now) {
                self.due = (now + ECHO).max(self.stands_back_until);
            }
            self.due
        } else {
            self.learn_of(held.owner);
            // Somebody has it, and the release will tell.
            self.owes_word = false;
            // Of its own, this process hears without looking.
            let hears = self.has_bell || self.runs.is_own(held.owner);
            let pause = if hears { self.longest } else { self.pause_after(held.since) };
            self.due = now + pause.min(self.longest);
            self.due + GRACE
        };
        self.seen = Some(Seen { owner: held.owner, believed_until });
        // A waiter of this process may have it and not know: the answer to its attempt was lost.
        if let Some(owner) = held.owner {
            self.line.wake(owner);
        }
    }

    /// Somebody, of this process or another, has given it up.
    pub(in crate::lease::watch) fn ring(&mut self, now: Instant) {
        self.is_old = true;
        let pause = match (self.is_ours(now), self.line.is_empty()) {
            (true, _) => ECHO,
            (false, true) => jittered(self.rivals.spread()),
            (false, false) => self.rivals.given_up(),
        };
        self.look_by(now + pause);
        if let Some(seen) = &mut self.seen {
            seen.believed_until = now;
        }
    }

    /// Somebody of another process, who may have been quicker.
    fn learn_of(&mut self, owner: Option<OwnerId>) {
        if self.runs.is_own(owner) {
            return;
        }
        if self.seen.as_ref().is_some_and(|seen| seen.owner != owner) {
            self.rivals.was_quicker();
        }
    }
}
