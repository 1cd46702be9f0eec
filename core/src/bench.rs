//! What a bench asks of a store beside locks. No part of the two contracts: hidden, behind the feature `bench`, and free to
//! change.

use crate::{LockName, Result};
use async_trait::async_trait;
use std::fmt::Debug;

/// A store without a lock library over it: what a lock is measured against.
#[async_trait]
pub trait Yardstick: Debug + Send + Sync + 'static {
    /// What the server calls itself, and its version.
    async fn server(&self) -> Result<String>;

    /// False if there is no [`raw_pair`](Self::raw_pair).
    fn has_raw(&self) -> bool;

    /// Takes a free name and gives it back by the least that could be right: a lease with a new token, and a release that
    /// looks whose it is. Over the same client crate and the same kind of connection as the backend's, with no time
    /// limit, no retry and no client state.
    async fn raw_pair(&self, name: &LockName) -> Result<()>;

    /// What the server has counted since it was started, of all its clients; `None` if it does not count, or does not
    /// tell us.
    async fn counters(&self) -> Result<Option<Counters>>;

    /// Deletes what free locks of these names have left in the store, such as the last token. Only for names that nobody
    /// uses any more: their next token may be smaller.
    async fn forget(&self, names: &[LockName]) -> Result<()>;
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by the backends of this workspace, and hidden")]
pub struct Counters {
    /// Commands or statements, those inside scripts included.
    pub commands: u64,
    /// Bytes received and sent.
    pub bytes: u64,
}
