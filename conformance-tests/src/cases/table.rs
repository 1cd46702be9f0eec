//! The table of a family: its cases, and the function of each.

use crate::case::Case;
use crate::context::Context;
use crate::stop::Verdict;
use futures_util::future::BoxFuture;

pub(crate) type CaseTable = &'static [(Case, CaseFn)];

/// Finds out whether a lock has the property.
pub(crate) type CaseFn = for<'a> fn(&'a Context) -> BoxFuture<'a, Verdict>;

/// A [`CaseTable`]: `A01 name_of_the_function, …`. In parentheses, what is not usual: the case's [`HostShare`](crate::HostShare), and its
/// [`Harm`](crate::Harm). After `if`, what the store must be, or the case is skipped. `A01 property = function(argument)` is a case of a
/// function that serves several. A function that stands in no table is dead code, and the build refuses it.
macro_rules! cases {
    (@call $cx:ident $function:ident) => { $function($cx) };
    (@call $cx:ident $property:ident $function:ident $($argument:expr),+) => {
        $function($cx, $($argument),+)
    };
    ($(
        $id:ident $property:ident $(($share:ident $(, $harm:ident)?))? $(if $($only:ident)&+)?
            $(= $function:ident($($argument:expr),+))?
    ),+ $(,)?) => {
        &[$((
            $crate::case::Case {
                $(share: $crate::case::HostShare::$share, $(harm: $crate::case::Harm::$harm,)?)?
                ..$crate::case::Case::new(stringify!($id), stringify!($property))
            },
            |cx| Box::pin(async move {
                $($($only(cx).await?;)+)?
                $crate::cases::table::cases!(@call cx $property $($function $($argument),+)?).await
            }),
        )),+]
    };
}
pub(crate) use cases;
