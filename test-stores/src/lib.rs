//! Stores for the tests and measurements of Leasehold: real servers of this host, and its backends on them as subjects of the
//! conformance suite.
//!
//! * [`servers`]: starts, stops and harms one server or a group of servers. Each is private: on a free loopback port, with a data
//!   directory of its own, and it ends with its value.
//! * `stores`, with the feature of this name: each backend in each mode, as a [`Subject`](leasehold_conformance::Subject) on such servers.
//! * [`pooler`]: a pooler for MariaDB, which no Debian package brings.
//! * [`Footprint`]: how many bytes a test's process has of its allocator.
//!
//! The crate has no stable interface: any release may change it.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod footprint;
pub mod pooler;
pub mod servers;
#[cfg(feature = "stores")]
pub mod stores;

pub use footprint::{Footprint, SystemClockWithoutAlarm};

use leasehold_core::sync::locked;
