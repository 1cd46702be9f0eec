use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::Query;
use std::error::Error as StdError;
use tonic::transport::Endpoint;

/// TLS in a build that has none: there is no value of this type.
#[derive(Debug)]
pub(crate) enum Tls {}

impl Tls {
    /// Refuses, and says what to do.
    pub(crate) fn from_query(_query: &mut Query) -> Result<Self> {
        let message = "the URL asks for TLS, which this build was made without";
        Err(Error::new(ErrorKind::Misconfigured, message).with_help("build with the feature \"tls\""))
    }

    pub(crate) fn has_identity(&self) -> bool {
        match *self {}
    }

    pub(crate) fn encrypt(&self, _endpoint: Endpoint) -> Result<Endpoint> {
        match *self {}
    }
}

pub(crate) fn refusal_in(_error: &(dyn StdError + 'static)) -> Option<Error> {
    None
}
