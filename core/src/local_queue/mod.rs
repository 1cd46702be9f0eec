//! The local queue: tasks of one process that want one name are one contender in the store, and pass the hold on among
//! themselves for a while before the others get their turn.
//!
//! Three parts: [`TakingTurns`](backend::TakingTurns) is the backend in between, which does the I/O, with its
//! [`Lines`](lines::Lines); a
//! [`Line`](line::Line) is what it knows of one name, without a clock and without I/O; a [`Turn`](turn::Turn) is the time
//! for which the process has the hold. The rules:
//!
//! 1. While there is no turn, the first in the line asks the store, with one claim for all of them. If it leaves, the
//!    next goes on with that claim: a place in the store's queue is not lost with who stood there.
//! 2. A grant begins a turn. A release within the turn passes the hold to the next in the line, with the next of the
//!    tokens that were reserved with the grant, and without a word to the store.
//! 3. A turn ends when the tokens, the hand-overs or the time are used up, when nobody waits, or when the next in line
//!    wants another lease than the store keeps, or describes itself otherwise than the store says. Then the hold is
//!    released, and who still waits asks again, behind the others.
//! 4. Whoever the hold is passed to counts its lease from the last proof that the store keeps it: the send of the request
//!    that was granted, or renewed, last. So it never believes longer than the store keeps it, whatever is lost.
//! 5. A loss that a renewal finds ends the turn, for whoever holds then, and nobody gets anything of it any more.
//! 6. What is to be released in the store is remembered until the store has answered, by the one whose release it is;
//!    unless another has asked with that claim again, whose release ends it then. A lease is forgotten when it must have
//!    ended, with the next use of its line; and lest nobody uses that, each new name has a few other lines swept.
//! 7. A claim that the store says is still held, after its turn was over here, is given back and asked for anew: some of
//!    its tokens are used.
//! 8. Nothing is given to one that has not asked for a while: those behind it are served instead, and if there is none, the
//!    turn ends. One that is away for long is taken out of the line, and what it left is released by whoever comes by.
//! 9. Where the store arranges no order, a process that has had the lock for a while in a row stands back, so that others come
//!    before it.
//! 10. Once the word was sent that releases a claim, nobody asks with it again: that word may be late, and would end what was
//!     granted meanwhile. Who still waits with it asks under another owner; so does everybody who stands in line after that, or
//!     after one was taken out, since those may come back.

mod backend;
mod line;
mod lines;
mod turn;

pub(crate) use backend::TakingTurns;

use crate::{Error, Result};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How tasks of one process that want one name take turns with the other processes. See
/// [`LockClientBuilder::with_local_queue`](crate::LockClientBuilder::with_local_queue).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LocalQueue {
    grants: u32,
}

impl LocalQueue {
    /// The parameter of a store URL, and the key of a profile, that switches it on.
    pub const PARAMETER: &'static str = "local_queue";
    /// The most grants of one turn.
    pub const MAX_GRANTS: u32 = 1024;
    /// The longest time from the beginning of a turn to its last hand-over; a third of the ttl, if that is shorter.
    pub const LONGEST_TURN: Duration = Duration::from_millis(100);

    /// Up to so many grants inside the process before the others get their turn, from 1 to
    /// [`MAX_GRANTS`](Self::MAX_GRANTS).
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a number out of range.
    pub fn new(grants: u32) -> Result<Self> {
        if (1..=Self::MAX_GRANTS).contains(&grants) {
            return Ok(Self { grants });
        }
        Err(out_of_range(grants))
    }

    /// Up to so many grants in one turn.
    pub fn grants(self) -> u32 {
        self.grants
    }
}

impl FromStr for LocalQueue {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().map_err(|_| out_of_range(format_args!("{text:?}"))).and_then(Self::new)
    }
}

fn out_of_range(given: impl fmt::Display) -> Error {
    let problem = format_args!("{given}, from 1 to {}", LocalQueue::MAX_GRANTS);
    Error::invalid(LocalQueue::PARAMETER, problem, "write a number such as 64, or leave it out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_grants_is_checked_and_the_limit_said() {
        assert_eq!("64".parse::<LocalQueue>().unwrap().grants(), 64);
        for text in ["0", "1025", "-1", "many", "", "4294967296"] {
            let error = text.parse::<LocalQueue>().unwrap_err().to_string();
            assert!(
                error.starts_with("invalid local_queue: ") && error.ends_with("from 1 to 1024"),
                "{error}"
            );
        }
    }
}
