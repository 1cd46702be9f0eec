//! Redis: one server, a primary and its replica under Sentinels, a cluster, and five servers for a majority.

mod cluster;
mod commands;
mod group_administrator;
mod redlock;
mod sentinel;
mod server;
mod server_administrator;

pub(super) use redlock::RedlockServers;
