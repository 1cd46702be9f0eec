//! J: faults of the network, of servers and of the machine.
//!
//! | faults of | file |
//! |---|---|
//! | the network | `network.rs` |
//! | one server, and its programs | `server.rs` |
//! | wall clocks | `clocks.rs` |
//! | a primary with replicas | `replicas.rs` |
//! | servers that elect a leader, as ZooKeeper's | `ensemble.rs` |
//! | independent servers of which a majority counts, as Redlock's | `majority.rs` |

mod clocks;
mod ensemble;
mod majority;
mod network;
pub(super) mod replicas;
mod server;

use crate::cases::table::CaseTable;

pub(super) const TABLES: &[CaseTable] =
    &[network::CASES, server::CASES, clocks::CASES, replicas::CASES, ensemble::CASES, majority::CASES];
