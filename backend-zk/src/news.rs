//! How a waiter hears that asking again may give another answer.

use crate::place::Place;
use crate::standing::{Hears, Standing};
use std::time::Duration;

/// From where it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Its bell rings.
    Told,
    /// Its bell rings for some, and for the others it looks from time to time.
    LooksAfter(Duration),
    /// Its session is over, and it has been told: its bell would ring without end until it stands elsewhere.
    Never,
}

impl Place {
    /// How it hears that asking again may give another answer.
    pub(crate) fn news(&self) -> News {
        // During a call there is nothing to wait for but its answer.
        let Some(standing) = self.standing.try_lock() else {
            return News::Told;
        };
        match &*standing {
            standing if standing.session().is_some_and(|session| session.is_over()) => News::Never,
            Standing::Behind(behind) if behind.hears == Hears::WatchesFront => {
                behind.listening.pause().map_or(News::Told, News::LooksAfter)
            }
            // Nobody in front has anything to tell it: its grant came too late, or a later attempt was not answered.
            Standing::First { .. } => News::LooksAfter(Duration::ZERO),
            // Its last look was not answered, and what it listened to before may be over: over a connection that lives on, nobody
            // tells it. Without one it is told when there is one again, and asks nobody meanwhile.
            standing if standing.is_unsure_though_connected() => News::LooksAfter(Duration::ZERO),
            _ => News::Told,
        }
    }
}
