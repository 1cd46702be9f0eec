//! One value, changed in one way; and the changes that several values share.

use crate::values::Values;
use std::time::Duration;

/// One value, changed in one way.
pub(crate) struct Mutation {
    pub(crate) value: &'static str,
    pub(crate) change: &'static str,
    /// Those to whom it is done alone; to all, if it is empty.
    pub(crate) holders: &'static str,
    pub(crate) values: Values,
    /// The families of cases that it is put to.
    pub(crate) families: &'static str,
    /// Why it is no mistake, or none that a store in memory can show.
    pub(crate) excuse: Option<&'static str>,
}

pub(crate) const fn changed(value: &'static str, change: &'static str, values: Values) -> Mutation {
    Mutation { value, change, holders: "", values, families: "ABCDEFGHKST", excuse: None }
}

impl Mutation {
    /// Puts it to these families alone: those that look at the value.
    pub(crate) const fn under(mut self, families: &'static str) -> Self {
        self.families = families;
        self
    }

    pub(crate) const fn excused(mut self, excuse: &'static str) -> Self {
        self.excuse = Some(excuse);
        self
    }
}

pub(crate) const A_HINT: &str = "a hint: a waiter asks at its interval, whatever the hint says";
pub(crate) const ALIKE: &str =
    "the two exclude each other and all others; they differ in the name of a node of ZooKeeper";

pub(crate) fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

pub(crate) fn micros_in_32_bits(time: Duration) -> Duration {
    Duration::from_micros((time.as_micros() as u32).into())
}

pub(crate) fn cut(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}
