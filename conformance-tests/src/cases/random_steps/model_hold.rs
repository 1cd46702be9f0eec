//! A hold, as the model of random steps has it.

use crate::cases::prelude::*;
use leasehold_core::{FencingToken, HolderInfo, LockMode};

/// When a lease ends, as far as a client can know.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Until then the store keeps the lease, and the guard believes in it.
    pub(super) earliest: Instant,
    /// Since then it is over.
    pub(super) latest: Instant,
}

/// A hold, as the model has it.
pub(super) struct ModelHold {
    pub(super) number: usize,
    pub(super) mode: LockMode,
    pub(super) token: FencingToken,
    pub(super) info: HolderInfo,
    pub(super) lease: Duration,
    /// `None` while it is renewed.
    pub(super) ends: Option<End>,
    /// The end of its least time.
    pub(super) lingers: Option<End>,
    /// `None` once it was released or dropped, and only its least time goes on.
    pub(super) guard: Option<LockGuard>,
    /// The store has confirmed its release.
    pub(super) is_released: bool,
}

impl ModelHold {
    /// Whether the store has it for all of this time; `None` if it may end meanwhile.
    pub(super) fn is_kept(&self, from: Instant, to: Instant) -> Option<bool> {
        match self.ends {
            Some(end) if from > end.latest => Some(false),
            Some(end) if to >= end.earliest => None,
            _ => Some(true),
        }
    }

    pub(super) fn remaining(&self) -> Duration {
        self.guard.as_ref().map_or(Duration::ZERO, |guard| guard.remaining())
    }
}
