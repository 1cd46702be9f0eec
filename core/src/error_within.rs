//! For backends: `rustls::Error` is wrapped by every client of a store.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

/// The error of this type within, wherever it was wrapped.
pub fn error_within<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    // These give, as their source, the source of the error that they hold: that error would be passed over.
    let shared = error.downcast_ref::<Arc<dyn StdError + Send + Sync>>().map(|it| &**it);
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let next = shared.or(held).map(|held| held as &(dyn StdError + 'static)).or_else(|| error.source());
    error.downcast_ref().or_else(|| error_within(next?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, ErrorKind};

    #[test]
    fn error_that_several_others_hold_is_found() {
        let within = io::Error::other(Error::new(ErrorKind::Denied, "within"));
        let outer = Error::closed().with_source(within);
        let held = io::Error::other(Error::closed());
        assert_eq!(error_within::<Error>(&held).unwrap().kind(), ErrorKind::Closed);
        assert_eq!(error_within::<io::Error>(&outer).unwrap().kind(), io::ErrorKind::Other);
        assert!(error_within::<std::fmt::Error>(&outer).is_none());
    }
}
