//! What a bench asks of a store beside locks. No part of the two contracts: hidden, behind the feature `bench`, and free to
//! change.

use crate::{Error, ErrorKind, LockName, Result};
use async_trait::async_trait;
use std::fmt::Debug;
use std::time::Duration;

/// A store without a lock library over it: what a lock is measured against.
#[async_trait]
pub trait Yardstick: Debug + Send + Sync + 'static {
    /// What the server calls itself, and its version.
    async fn server(&self) -> Result<String>;

    /// False if this one has no such measure.
    fn has(&self, measure: ByHand) -> bool;

    /// Takes a free name and gives it back by the least that could be right: a lease with a new token, and a release that
    /// looks whose it is. Over the same client crate and the same kind of connection as the backend's, with no time
    /// limit, no retry and no client state.
    async fn raw_pair(&self, name: &LockName) -> Result<()>;

    /// The same without a token: what is left over tells what a token costs.
    async fn tokenless_pair(&self, _name: &LockName) -> Result<()> {
        Err(unmeasured())
    }

    /// Takes a free name, and gives it back while somebody on another connection waits to be told. How long that took,
    /// from the beginning of the release until the waiter was told. Not for two at a time.
    async fn raw_notice(&self, _name: &LockName) -> Result<Duration> {
        Err(unmeasured())
    }

    /// What the server has counted since it was started, of all its clients; `None` if it does not count, or does not
    /// tell us.
    async fn counters(&self) -> Result<Option<Counters>>;

    /// Deletes what free locks of these names have left in the store, such as the last token. Only for names that nobody
    /// uses any more: their next token may be smaller.
    async fn forget(&self, names: &[LockName]) -> Result<()>;
}

/// What can be measured without a lock library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "answered by the backends of this workspace, and hidden")]
pub enum ByHand {
    /// [`Yardstick::raw_pair`].
    Pair,
    /// [`Yardstick::tokenless_pair`].
    TokenlessPair,
    /// [`Yardstick::raw_notice`].
    Notice,
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by the backends of this workspace, and hidden")]
pub struct Counters {
    /// Commands or statements, those inside scripts included.
    pub commands: u64,
    /// Bytes received and sent; 0 if it does not count them.
    pub bytes: u64,
}

fn unmeasured() -> Error {
    Error::new(ErrorKind::Unsupported, "this store has no such measure")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that is measured by one pair, and by nothing else.
    #[derive(Debug)]
    struct PairOnly;

    #[async_trait]
    impl Yardstick for PairOnly {
        async fn server(&self) -> Result<String> {
            Ok("a store".to_owned())
        }

        fn has(&self, measure: ByHand) -> bool {
            measure == ByHand::Pair
        }

        async fn raw_pair(&self, _: &LockName) -> Result<()> {
            Ok(())
        }

        async fn counters(&self) -> Result<Option<Counters>> {
            Ok(None)
        }

        async fn forget(&self, _: &[LockName]) -> Result<()> {
            Ok(())
        }
    }

    /// A figure of nothing would be the best of all.
    #[tokio::test]
    async fn what_a_store_has_no_measure_for_is_no_figure() {
        let name = LockName::new("job").unwrap();
        let error = PairOnly.tokenless_pair(&name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(PairOnly.raw_notice(&name).await.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
