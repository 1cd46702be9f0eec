//! Measurements of a store without locks, for benchmarks. Not a part of the contracts: hidden, behind the feature `bench`.

use crate::{Error, ErrorKind, LockName, Result};
use async_trait::async_trait;
use std::fmt::Debug;
use std::time::Duration;

/// A store without a lock library: the baseline of a measurement.
#[async_trait]
pub trait Yardstick: Debug + Send + Sync + 'static {
    /// The name and version of the server.
    async fn server(&self) -> Result<String>;

    /// False if this one has no such measure.
    fn has(&self, measure: ByHand) -> bool;

    /// Takes a free name and gives it back by the least that could be right: a lease with a new token, and a release that
    /// checks its owner, over the backend's kind of connection, with no time limit and no retry.
    async fn raw_pair(&self, name: &LockName) -> Result<()>;

    /// The same without a token: the difference is the cost of a token.
    async fn tokenless_pair(&self, _name: &LockName) -> Result<()> {
        Err(unmeasured())
    }

    /// Takes a free name, and gives it back while a waiter on another connection listens. Answers the time from the begin of
    /// the release until the waiter was told. Not for two callers at a time.
    async fn raw_notice(&self, _name: &LockName) -> Result<Duration> {
        Err(unmeasured())
    }

    /// The counters of the server since its start, for all its clients; `None` if it has none, or may not tell.
    async fn counters(&self) -> Result<Option<Counters>>;

    /// Deletes what free locks of these names have left in the store. Their next token may be smaller: only for names that are
    /// not used again.
    async fn forget(&self, names: &[LockName]) -> Result<()>;
}

/// The measurements.
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

/// The counters of a server.
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

    /// Not zero, which would be the best result.
    #[tokio::test]
    async fn missing_measure_is_unsupported() {
        let name = LockName::new("job").unwrap();
        let error = PairOnly.tokenless_pair(&name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(PairOnly.raw_notice(&name).await.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
