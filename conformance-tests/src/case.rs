//! A case: one property, one function, one line of output.

/// One property of a lock, and what the case that asks for it does to the machine and to a store.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Case {
    /// Its name for good: `A02`.
    pub id: &'static str,
    /// The property, in snake case: `held_lock_refuses_a_second_holder_at_once`.
    pub property: &'static str,
    /// The owners' case that this one repeats for readers or for writers: `C02`.
    pub in_a_mode: Option<&'static str>,
    /// How much of the machine it needs.
    pub share: HostShare,
    /// What it does to a store that others use, beyond taking locks of its own names.
    pub harm: Harm,
}

/// How much of the machine a case needs, for its load or for its timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HostShare {
    /// It mostly waits, beside others that do.
    Usual,
    /// It is a load, its servers are several, or one takes over with time-outs that others would make it miss.
    Quarter,
    /// It counts what happens, or asks for all that there is.
    Whole,
}

/// What a case does to a store that others use.
///
/// Only what it does through the lock's own interface: servers are killed, records deleted and clocks set by the hooks of
/// a [`Store`](crate::Store), and where there is no hook the case is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Harm {
    /// Nothing: it takes and gives back locks of its own names, and looks.
    None,
    /// It is a load that others would feel: thousands of locks or waiters.
    Load,
    /// It changes what is not its own.
    Others,
}

impl Case {
    pub(crate) const fn new(id: &'static str, property: &'static str) -> Self {
        Self { id, property, in_a_mode: None, share: HostShare::Usual, harm: Harm::None }
    }

    /// The name of its line in the output, after the subject's: `A02_held_lock_refuses_a_second_holder_at_once`.
    pub fn name(&self) -> String {
        format!("{}_{}", self.id, self.property)
    }
}
