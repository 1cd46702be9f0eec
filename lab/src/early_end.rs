use leasehold_console::Failure;
use rustix::process::Signal;

/// Why a measurement ended before it was done.
pub(crate) enum EarlyEnd {
    Interrupted(Signal),
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for EarlyEnd {
    fn from(failure: E) -> Self {
        Self::Failed(failure.into())
    }
}
