//! ZooKeeper: one server, and an ensemble of three.

mod client;
mod group;

pub(super) use group::ZooKeeperGroup;
