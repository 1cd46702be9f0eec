//! The kinds of lock that the core builds on exclusive locks, as the cases of the suite use them.

use std::fmt::Debug;

/// The operations of the kinds, one method for each; every method has the library's as its default. A subject whose kind is
/// its own, such as a broken one, replaces a method; see [`Subject::kinds`](crate::Subject::kinds).
///
/// A method takes the client and answers a type of the library where that has a public constructor, and else a boxed trait of
/// this module that the library's type implements.
pub trait Kinds: Debug + Send + Sync + 'static {}

/// The kinds of the library, unchanged.
#[derive(Debug)]
pub(crate) struct LibraryKinds;

impl Kinds for LibraryKinds {}
