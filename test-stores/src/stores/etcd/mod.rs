//! etcd: one member, and a cluster of three that is asked only what needs several: the rest is asked of one, which is the same
//! code.

mod group;

pub(super) use group::EtcdGroup;
