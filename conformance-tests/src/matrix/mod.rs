//! Every fault, under every store: what is promised beside what was seen.
//!
//! A *cell* is one fault under one store. Real servers, a holder that works under its lock in a process of its own, others
//! in another process that want it all the time: one waits, one tries again and again, one takes a lock that nobody else
//! wants, which shows whether the store grants anything. The fault is made while the lock is held, and healed. All write
//! down what they do and see; what is measured is read from that history (by `checker`), never from what the
//! backend says of itself.
//!
//! What was seen becomes an [`Outcome`](leasehold_core::Outcome) by one rule:
//!
//! 1. a token was repeated or went back, or a resource that looks at tokens lost an update: *may break*;
//! 2. else, somebody was granted a lock that another one still held, by the last word it had from the store: *fenced only*;
//! 3. else, the fault was a state, and nobody was granted anything while it lasted: *unavailable*;
//! 4. else *holds*.
//!
//! That is the order from the worst to the best. A cell that shows worse than is promised is [broken](State::Broken), and so
//! is a cell after which records are left; one after which no client gets the lock in time is [late](State::Late). A cell that shows
//! better is [better](State::Better), and worth a look: the promise may be too small, or the fault too weak. A cell whose fault did not
//! hit a holder shows nothing, and is [void](State::Void), unless there were two owners where that is not promised.
//!
//! A cell that is not as promised, void or not judged is played again alone, and judged like a case: what no delay explains counts in
//! whichever attempt it was seen, and so do two owners or a failure on a machine that was on time.
//!
//! A hook that reports a fault as made is no evidence for it. So a cell is void if its holder works on while it is dead, if its
//! store ended no connection although it was killed, or if its new primary knows what it cannot know; and it is broken if its
//! servers are said to be down, and take connections.

mod cell;
mod cell_run;
mod cells;
mod figures;
mod judgement;

pub use cell::{Cell, Figures, State, cell_name};
pub use cells::Matrix;
