//! The table of a family: its cases, and the function of each.

use crate::case::Case;
use crate::context::Context;
use crate::stop::Verdict;
use futures_util::future::BoxFuture;

pub(crate) type CaseTable = &'static [(Case, CaseFn)];

/// Finds out whether a lock has the property.
pub(crate) type CaseFn = for<'a> fn(&'a Context) -> BoxFuture<'a, Verdict>;

/// A [`CaseTable`]: `A01 name_of_the_function, …`. In parentheses, by methods of [`Case`]: the case's share of the host, and its harm. A function that stands in no table is dead code, and the build refuses it.
macro_rules! cases {
    ($($id:ident $property:ident $(($($how:ident),+))?),+ $(,)?) => {
        &[$((
            $crate::case::Case::new(stringify!($id), stringify!($property))$($(.$how())+)?,
            |context| Box::pin($property(context)),
        )),+]
    };
}
pub(crate) use cases;
