//! Tiny histories whose verdict is known: each rule, both sides of each of its boundaries, unknown outcomes everywhere.

mod evidence;
mod leases;
mod modes;
mod owners;
mod waiting;

use super::model;
use super::script::Script;
use crate::checker::{Model, Rule};

/// Written by this, it breaks exactly these rules of the model.
#[track_caller]
fn oracle(expected: &[Rule], write: impl FnOnce(&mut Script)) {
    oracle_of(&model(), expected, write);
}

#[track_caller]
fn oracle_of(model: &Model, expected: &[Rule], write: impl FnOnce(&mut Script)) {
    let mut script = Script::default();
    write(&mut script);
    script.breaks(model, expected);
}
