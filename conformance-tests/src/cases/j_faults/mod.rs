//! J: faults of the network, of servers and of the machine.

pub(super) mod ensemble;
pub(super) mod majority;
pub(super) mod network;
pub(super) mod programs;
pub(super) mod replicas;
pub(super) mod server;

use crate::case::Case;

pub(super) const TABLES: &[&[Case]] =
    &[ensemble::CASES, majority::CASES, network::CASES, programs::CASES, replicas::CASES, server::CASES];
