//! J: faults of the network, of servers and of the machine.

mod clocks;
mod ensemble;
mod majority;
mod network;
mod replicas;
mod server;

use crate::cases::table::CaseTable;

pub(super) const TABLES: &[CaseTable] =
    &[network::CASES, server::CASES, clocks::CASES, replicas::CASES, ensemble::CASES, majority::CASES];
