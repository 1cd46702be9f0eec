//! What nearly every case uses: its table, what it has at hand, what it expects, and how it stops.

pub(crate) use super::table::{CaseTable, cases};
pub(crate) use crate::context::{Context, until_answer_is_held, until_queued};
pub(crate) use crate::expect::{
    Client, ClientExt, believed_until, ensure_free, ensure_held, ensure_kept, ensure_kind, eventually,
    free_within, loss_within, optional, release_all, timed,
};
pub(crate) use crate::proxy::{Proxy, Traffic};
pub(crate) use crate::stop::{Stop, Verdict, ensure, ensure_untimed, ensure_within, require};
pub(crate) use crate::worker::Worker;
pub(crate) use leasehold_core::{
    AcquireOptions, DistributedLockExt, ErrorKind, HoldKind, LockGuard, LockName, Wait,
};
pub(crate) use std::time::Duration;
