//! The promises of the core for every backend, on virtual time, with a store that loses and delays requests and replies as
//! the test chooses. Except in tests that say so, no sleep takes real time, and every race has one outcome.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod c1_clean_outcomes;
mod election;
mod faulty_store;
mod guard;
mod handed_over;
mod i1_idempotent_attempts;
mod keeper;
mod keeper_wakes;
mod l2_bounded_wait;
mod l5_cancel_safety;
mod l5_runtime_ends;
mod lock_sets;
mod n1_at_risk;
mod n1_loss_in_time;
mod n1_validity;
mod observer;
mod renewal_groups;
mod scopes;
mod semaphore;
mod semaphore_gate;
mod semaphore_waits;
mod sessions;
mod short_forms;
mod traces;
mod values;
mod wait_queue;
