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
    /// It was seen by Leasehold's own tests on a server of this kind, whose table of faults comes with the release.
    Matrix,
    /// The backend declares it.
    Declared,
}

impl Basis {
    /// What the signs mean.
    pub(crate) const LEGEND: &str = "† not tried in this run: seen in the table of faults that comes with Leasehold. \
                                     ‡ as the backend declares. Everything else was measured in this run.";

    /// What follows a figure.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Measured => "",
            Self::Matrix => " †",
            Self::Declared => " ‡",
        }
    }
}
