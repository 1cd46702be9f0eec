//! From figures to sentences. No store is named here: who is named in a sentence is what the data say.

mod answers;
mod card;
mod notices;

pub(crate) use answers::{Answer, answers};
pub(crate) use card::{Card, card};
pub(crate) use notices::notices;
