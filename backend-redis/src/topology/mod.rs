//! Which server has a name: the primary that Sentinels name, or a node of a cluster.

pub(crate) mod cluster;
pub(crate) mod sentinel;
