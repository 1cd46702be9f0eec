//! From figures to sentences. No store is named here: who is named in a sentence is what the data say.

mod card;
mod notices;
mod recommendations;

pub(crate) use card::{Card, card};
pub(crate) use notices::notices;
pub(crate) use recommendations::{Recommendation, recommendations};
