//! ZooKeeper: one server, and an ensemble of three.

mod client;
mod group;
mod servers;

pub(super) use group::ZooKeeperGroup;
