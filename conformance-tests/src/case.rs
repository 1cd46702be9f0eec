//! A case: one property, one function, one line of output.

use crate::context::Context;
use crate::server::StartError;
use leasehold_core::Error;
use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;

/// One property of a lock, and how to find out whether it has it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Case {
    /// Its name for good: `A02`.
    pub id: &'static str,
    /// The property, in snake case: `held_lock_refuses_a_second_holder_at_once`.
    pub property: &'static str,
    /// How much of the machine it needs.
    pub share: HostShare,
    /// What it does to a store that others use, beyond taking locks of its own names.
    pub harm: Harm,
    run: Run,
}

/// How much of the machine a case needs, for its load or for its timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HostShare {
    /// It mostly waits, beside others that do.
    Usual,
    /// It is a load, or a replica takes over, with time-outs of its own that others would make it miss.
    Quarter,
    /// Likewise, of servers that are three virtual machines.
    Half,
    /// It counts what happens, or asks for all that there is.
    Whole,
}

/// What a case does to a store that others use.
///
/// Only what it does through the lock's own interface: servers are killed, records deleted and clocks set by the hooks of
/// a [`Store`](crate::Store), and where there is no hook the case is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Harm {
    /// Nothing: it takes and gives back locks of its own names, and looks.
    None,
    /// It is a load that others would feel: thousands of locks or waiters.
    Load,
    /// It changes what is not its own.
    Others,
}

type Run = for<'a> fn(&'a Context) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// How a case came out; `?` on a broken expectation ends it.
pub type Verdict = Result<(), Stop>;

/// Why a case did not pass.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "complete: a case passes, fails or is skipped")]
pub enum Stop {
    /// The property does not hold; what was seen.
    Failed(String),
    /// The property has no meaning here, or cannot be observed; why.
    Skipped(String),
}

impl Stop {
    /// For what is to be installed and is not there: a failure, unless `LEASEHOLD_SKIP_MISSING` is set, which skips.
    pub fn missing(reason: &str) -> Self {
        match std::env::var_os("LEASEHOLD_SKIP_MISSING") {
            Some(_) => Self::Skipped(format!("{NOT_RUN}{reason}")),
            None => {
                let help = "install it, or let LEASEHOLD_SKIP_MISSING=1 skip its cases; Leasehold's own scripts/test installs all";
                Self::Failed(format!("{reason}; {help}"))
            }
        }
    }

    /// True for a failure, and for what is [missing](Self::missing), also where that skips.
    pub(crate) fn is_failed_or_missing(&self) -> bool {
        match self {
            Self::Failed(_) => true,
            Self::Skipped(why) => why.starts_with(NOT_RUN),
        }
    }
}

const NOT_RUN: &str = "NOT RUN: ";

impl Case {
    pub(crate) const fn new(id: &'static str, property: &'static str, run: Run) -> Self {
        Self { id, property, share: HostShare::Usual, harm: Harm::None, run }
    }

    pub(crate) const fn quarter(mut self) -> Self {
        self.share = HostShare::Quarter;
        self
    }

    pub(crate) const fn half(mut self) -> Self {
        self.share = HostShare::Half;
        self
    }

    pub(crate) const fn alone(mut self) -> Self {
        self.share = HostShare::Whole;
        self
    }

    pub(crate) const fn load(mut self) -> Self {
        self.harm = Harm::Load;
        self
    }

    pub(crate) const fn touches_others(mut self) -> Self {
        self.harm = Harm::Others;
        self
    }

    /// The name of its line in the output, after the subject's: `A02_held_lock_refuses_a_second_holder_at_once`.
    pub fn name(&self) -> String {
        format!("{}_{}", self.id, self.property)
    }

    pub(crate) async fn run(&self, context: &Context) -> Verdict {
        (self.run)(context).await
    }
}

/// The table of a family: `A01 name_of_the_function, …`. A function that stands in no table is dead code, and the
/// build refuses it.
macro_rules! cases {
    ($($id:ident $property:ident $(($($how:ident),+))?),+ $(,)?) => {
        &[$($crate::case::Case::new(stringify!($id), stringify!($property), |context| Box::pin($property(context)))$($(.$how())+)?),+]
    };
}
pub(crate) use cases;

/// Ends the case as failed, with these words, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::case::Stop::Failed(format!($($words)+)));
        }
    };
}
pub(crate) use ensure;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let mut words = format!("{}: {error}", error.kind().code());
        let mut source = error.source();
        while let Some(cause) = source {
            words += &format!(": {cause}");
            source = cause.source();
        }
        Self::Failed(words)
    }
}

impl From<StartError> for Stop {
    fn from(error: StartError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(format!("the suite itself failed: {error}"))
    }
}

impl From<tokio::task::JoinError> for Stop {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Failed(format!("a task panicked: {error}"))
    }
}
