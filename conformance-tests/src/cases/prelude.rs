//! What nearly every case uses: its table, what it has at hand, what it expects, how it stops, and what serves several families.

pub(super) use super::declared::*;
pub(crate) use super::table::{CaseTable, cases};
pub(super) use super::tasks::*;
pub(crate) use crate::context::{Context, until_answer_is_held, until_queued, until_records_gone};
pub(crate) use crate::expect::{
    Client, ClientExt, believed_until, ensure_all_free, ensure_free, ensure_held, ensure_kept, ensure_kind,
    ensure_kind_if_known, ensure_larger_token, ensure_not_lost, ensure_outage, eventually, free_within,
    held_for, last_answer_within, loss_within, optional, release_all, timed,
};
pub(crate) use crate::proxy::{Proxy, Traffic};
pub(crate) use crate::stop::{
    Stop, Verdict, ensure, ensure_came, ensure_met, ensure_untimed, ensure_within, require,
};
pub(crate) use crate::worker::Worker;
pub(crate) use leasehold_core::{
    AcquireOptions, DistributedLockExt, ErrorKind, HoldKind, LockGuard, LockName, Wait,
};
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;
pub(crate) use tokio::task::JoinSet;
pub(crate) use tokio::time::Instant;
