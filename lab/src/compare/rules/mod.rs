//! From figures to sentences. No store is named here: who is named in a sentence is what the data say.

mod answers;
mod card;
mod notices;
mod questions;
mod under_fault;

pub(crate) use answers::Answer;
pub(crate) use card::{Card, card};
pub(crate) use notices::notices;
pub(crate) use questions::answers;
pub(crate) use under_fault::UnderFault;

/// What a figure or a word rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// It was seen in this run.
    Measured,
    /// The backend promises it, and Leasehold's own tests hold the promise against the faults of the table that comes with the
    /// release.
    Promised,
    /// The backend declares it.
    Declared,
}

impl Basis {
    /// What the signs mean.
    pub(crate) const LEGEND: &str = "† not tried in this run: promised, and held against the table of faults that comes with Leasehold. \
                                     ‡ as the backend declares. Everything else was measured in this run.";

    /// What follows a figure.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Measured => "",
            Self::Promised => " †",
            Self::Declared => " ‡",
        }
    }
}
