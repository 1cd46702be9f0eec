use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Endpoint, Query};
use std::error::Error as StdError;
use tokio::net::TcpStream;

/// TLS in a build that has none: there is no value of this type.
#[derive(Clone, Debug)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) fn from_query(_servers: &[Endpoint], _query: &mut Query) -> Result<Self> {
        let message = "the URL asks for TLS, which this build was made without";
        Err(Error::new(ErrorKind::Misconfigured, message).with_help("build with the feature \"tls\""))
    }

    pub(crate) async fn encrypt(&self, _stream: TcpStream, _host: &str) -> Result<TcpStream> {
        match *self {}
    }
}

pub(crate) fn refusal_by_peer(_error: &(dyn StdError + 'static)) -> Option<Error> {
    None
}
