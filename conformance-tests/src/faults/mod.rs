//! The faults, as values: each can be made on a store that runs and on the process of a holder, and healed again.
//!
//! What a fault does is done with the hooks of [`Store`](crate::Store) and its parts; one that a store has no hook for cannot
//! be made there, and says so.
//!
//! | looking for | it is in |
//! |---|---|
//! | which fault is made by what means, when, and for how long | `table.rs` |
//! | what is known of a fault by its means | `spec.rs` |
//! | how it is prepared, made and healed | `injection.rs` |
//! | whether it was made, as others see it | `evidence.rs` |

mod evidence;
mod injection;
mod spec;
mod table;

pub(crate) use evidence::{Witness, is_taken, until_done_unheard};
pub(crate) use injection::{ClientSetup, Ground, Injection};
#[cfg(test)]
pub(crate) use spec::Means;
pub(crate) use spec::{FaultSpec, Lasting, SideEffect, Time, usual_lease};
pub(crate) use table::{can_happen, spec_of};
