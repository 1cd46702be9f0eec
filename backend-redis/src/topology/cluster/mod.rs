//! A cluster: several primaries, each with some of the names.
//!
//! All keys of a name lie in one slot, so each request concerns one node. A node that does not have the slot names the one
//! that does, and has done nothing: the request goes on there, for the same owner. What may have been carried out is never sent
//! again.

mod map;
mod nodes;

pub(crate) use map::Slot;
pub(crate) use nodes::Cluster;

use crate::connection::{Call, Link, Reply};
use crate::target::Address;
use leasehold_core::{Error, ErrorKind, Result};
use map::named;
use redis::{ServerErrorKind, Value};
use std::sync::Arc;

/// How often one request is sent on. Twice is ordinary while a slot moves; more is a cluster whose nodes do not agree.
const MOST_REDIRECTS: usize = 5;

/// Where to ask instead. A request that was sent on was not carried out.
#[derive(Debug, PartialEq)]
enum Redirect {
    /// There, from now on.
    Moved(Address),
    /// There, this once: the slot is on its way.
    Ask(Address),
    /// To a node of which it does not know by what name it is reached.
    Nowhere,
}

impl Cluster {
    /// Calls a script where its keys lie, and gives the very reply, which may be an error, of the node that has them.
    pub(crate) async fn ask(self: &Arc<Self>, mut call: Call<'_>) -> Result<Reply> {
        let slot = Slot::of(call.keys.first().unwrap_or(&""));
        let (mut address, mut link) = self.owner(slot).await?;
        for _ in 0..=MOST_REDIRECTS {
            let reply = match link.ask(&call).await {
                Ok(reply) => reply,
                Err(error) => match self.instead_of(&address, slot, &error).await {
                    Some(other) => {
                        (address, link) = other;
                        call.asking = false;
                        continue;
                    }
                    None => return Err(error),
                },
            };
            match Redirect::of(&reply.value, &address) {
                Some(Redirect::Moved(to)) => {
                    self.move_slot(slot, to.clone());
                    (address, call.asking) = (to, false);
                }
                Some(Redirect::Ask(to)) => (address, call.asking) = (to, true),
                Some(Redirect::Nowhere) => {
                    self.doubt();
                    return Err(link.here(sent_nowhere(slot)));
                }
                None => {
                    if is_in_doubt(&reply.value) {
                        self.doubt();
                    }
                    return Ok(reply);
                }
            }
            link = self.link(&address)?;
        }
        Err(link.here(sent_around(slot)))
    }

    /// Another node that has the slot, if this one could not be asked, so that certainly nothing was done.
    async fn instead_of(
        self: &Arc<Self>,
        failed: &Address,
        slot: Slot,
        error: &Error,
    ) -> Option<(Address, Arc<Link>)> {
        if error.is_outage() {
            self.doubt();
        }
        if error.kind() != ErrorKind::Unavailable {
            return None;
        }
        let other = self.owner(slot).await.ok()?;
        (other.0 != *failed).then_some(other)
    }
}

impl Redirect {
    /// Reads `MOVED slot host:port` and `ASK slot host:port`. An IPv6 address stands there without brackets.
    fn of(reply: &Value, asked: &Address) -> Option<Self> {
        let Value::ServerError(error) = reply else { return None };
        let to = || {
            let (host, port) = error.details()?.split(' ').nth(1)?.rsplit_once(':')?;
            named(host, port.parse().ok()?, asked)
        };
        match error.kind()? {
            ServerErrorKind::Moved => Some(to().map_or(Self::Nowhere, Self::Moved)),
            ServerErrorKind::Ask => Some(to().map_or(Self::Nowhere, Self::Ask)),
            _ => None,
        }
    }
}

/// True if the reply says that the cluster is not what it was taken for.
fn is_in_doubt(reply: &Value) -> bool {
    let Value::ServerError(error) = reply else { return false };
    matches!(error.kind(), Some(ServerErrorKind::ClusterDown | ServerErrorKind::ReadOnly))
}

fn sent_nowhere(slot: Slot) -> Error {
    let message = format!("slot {slot} is at a node of which this one does not know where it is");
    Error::new(ErrorKind::Unavailable, message).with_help(
        "look at what the nodes announce: cluster-announce-hostname, cluster-preferred-endpoint-type",
    )
}

fn sent_around(slot: Slot) -> Error {
    let message = format!("the nodes of the cluster do not agree on who has slot {slot}");
    Error::new(ErrorKind::Unavailable, message)
        .with_help("wait until they do; if it lasts, look at CLUSTER SLOTS of each of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(line: &str) -> Option<Redirect> {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        Redirect::of(&reply, &Address::Tcp { host: "a".to_owned(), port: 1 })
    }

    fn moved(text: &str) -> Option<String> {
        match redirect(&format!("MOVED 1 {text}")) {
            Some(Redirect::Moved(address)) => Some(address.to_string()),
            _ => None,
        }
    }

    #[test]
    fn address_of_a_node_is_read_in_each_form() {
        assert_eq!(moved("10.0.0.7:6381").as_deref(), Some("10.0.0.7:6381"));
        assert_eq!(moved("::1:6381").as_deref(), Some("[::1]:6381"));
        assert_eq!(moved(":6381").as_deref(), Some("a:6381"));
        for unknown in ["?:6381", "b:0", "b"] {
            assert_eq!(redirect(&format!("MOVED 1 {unknown}")), Some(Redirect::Nowhere), "{unknown}");
            assert_eq!(redirect(&format!("ASK 1 {unknown}")), Some(Redirect::Nowhere), "{unknown}");
        }
        assert!(matches!(redirect("ASK 1 b:7000"), Some(Redirect::Ask(_))));
    }

    #[test]
    fn other_replies_are_no_redirect() {
        let asked = Address::Tcp { host: "a".to_owned(), port: 1 };
        for reply in [Value::Okay, Value::Nil, Value::BulkString("MOVED 1 a:1".into())] {
            assert_eq!(Redirect::of(&reply, &asked), None);
        }
        assert_eq!(redirect("ERR 1 b:7000"), None);
    }
}
