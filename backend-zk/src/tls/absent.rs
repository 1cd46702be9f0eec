use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{Endpoint, Query};
use tokio::net::TcpStream;
use zookeeper_client::{Client, Connector, Error as Answer};

/// TLS in a build that has none: there is no value of this type.
#[derive(Debug)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) fn from_query(_servers: &[Endpoint], _query: &mut Query) -> Result<Self> {
        let message = "the URL asks for TLS, which this build was made without";
        Err(Error::new(ErrorKind::Misconfigured, message)
            .with_help("build with the feature \"tls\" of leasehold-zk, \"zookeeper-tls\" of leasehold"))
    }

    pub(crate) fn has_identity(&self) -> bool {
        match *self {}
    }

    pub(crate) async fn connect(
        &self,
        _connector: Connector,
        _servers: &str,
    ) -> Result<std::result::Result<Client, Answer>> {
        match *self {}
    }

    pub(crate) async fn refusal(&self, _host: &str, _stream: TcpStream) -> Option<Error> {
        match *self {}
    }
}
