use crate::subject::Address;
use leasehold_core::{Error, ErrorKind, Result};
use std::future::Future;
use std::time::Duration;
use tokio::sync::Mutex;
use zookeeper_client::{Client, Error as Refusal};

/// Long enough for a busy machine: the client calls a connection dead that was silent for two fifths of it.
pub(super) const SESSION: Duration = Duration::from_millis(1500);

/// How long it may take to get one. The patience of the cases is for replies.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// One session, and another one when it has ended.
pub(super) struct Session {
    address: Address,
    client: Mutex<Option<Client>>,
}

impl Session {
    pub(super) fn at(address: &Address) -> Self {
        Self { address: address.clone(), client: Mutex::new(None) }
    }

    pub(super) async fn client(&self) -> Result<Client> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|client| !client.state().is_terminated()) {
            return Ok(client.clone());
        }
        let connector = Client::connector().with_session_timeout(self.address.hold.unwrap_or(SESSION));
        match tokio::time::timeout(CONNECTS_WITHIN, connector.connect(&self.address.server)).await {
            Ok(Ok(new)) => Ok(client.insert(new).clone()),
            Ok(Err(error)) => Err(Error::new(ErrorKind::Unavailable, format!("cannot connect: {error}"))),
            Err(_) => Err(Error::new(ErrorKind::Unavailable, "cannot connect in time")),
        }
    }

    /// The outcome of a call: done, refused by the server for a reason that the recipe knows, or unknown.
    pub(super) async fn outcome<T>(
        &self,
        call: impl Future<Output = std::result::Result<T, Refusal>>,
    ) -> Result<std::result::Result<T, Refusal>> {
        match tokio::time::timeout(self.address.patience, call).await {
            Ok(Err(refusal @ (Refusal::NoNode | Refusal::NodeExists))) => Ok(Err(refusal)),
            Ok(Err(error)) => Err(Error::new(ErrorKind::Indeterminate, error.to_string())),
            Ok(Ok(value)) => Ok(Ok(value)),
            Err(_) => Err(Error::new(ErrorKind::Indeterminate, "no reply in time")),
        }
    }
}
