//! Broken locks by store. Those over Redis, the oldest, are one folder up.

pub(crate) mod cluster;
pub(crate) mod etcd;
pub(crate) mod redlock;
pub(crate) mod replica;
pub(crate) mod sql;
pub(crate) mod zookeeper;
