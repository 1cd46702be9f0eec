//! Locks on several servers that are one store: what Sentinels watch, what a cluster spreads, what replicas confirm.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod address;
mod cluster;
mod half_cluster;
mod kit;
mod migration;
mod replicas;
mod sentinel;
mod slot_move;
