//! A cluster: several primaries, each with some of the names.
//!
//! All keys of a name lie in one slot, so each request concerns one node. A node that does not have the slot names the one
//! that does, and has done nothing: the request goes on there, for the same owner. What may have been carried out is never sent
//! again.

mod map;
mod topology;

pub(crate) use map::hash_slot;
pub(crate) use topology::Cluster;
use topology::unavailable;

use crate::connection::{ScriptCall, ScriptReply, ServerLink};
use crate::target::Address;
use leasehold_core::{Error, ErrorKind, Result};
use map::named;
use redis::{ServerErrorKind, Value};
use std::sync::Arc;

/// How often one request is sent on. Twice is ordinary while a slot moves; more is a cluster whose nodes do not agree.
const MOST_REDIRECTS: usize = 5;

impl Cluster {
    /// Calls a script where its keys lie, and gives the very reply, which may be an error, of the node that has them.
    pub(crate) async fn ask(self: &Arc<Self>, mut call: ScriptCall<'_>) -> Result<ScriptReply> {
        let slot = hash_slot(call.keys.first().unwrap_or(&""));
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
            match redirect(&reply.value, &address) {
                Some((kind, Some(to))) => {
                    call.asking = kind == ServerErrorKind::Ask;
                    if !call.asking {
                        self.move_slot(slot, to.clone());
                    }
                    address = to;
                }
                Some((_, None)) => {
                    self.doubt();
                    let message =
                        format!("slot {slot} is at a node of which this one does not know where it is");
                    let help = "look at what the nodes announce: cluster-announce-hostname, cluster-preferred-endpoint-type";
                    return Err(link.route.with_address(unavailable(message, help)));
                }
                None => {
                    // The cluster is not what it was taken for.
                    if let Value::ServerError(error) = &reply.value
                        && matches!(
                            error.kind(),
                            Some(ServerErrorKind::ClusterDown | ServerErrorKind::ReadOnly)
                        )
                    {
                        self.doubt();
                    }
                    return Ok(reply);
                }
            }
            link = self.link(&address)?;
        }
        let message = format!("the nodes of the cluster do not agree on who has slot {slot}");
        let help = "wait until they do; if it lasts, look at CLUSTER SLOTS of each of them";
        Err(link.route.with_address(unavailable(message, help)))
    }

    /// Another node that has the slot, if this one could not be asked, so that certainly nothing was done.
    async fn instead_of(
        self: &Arc<Self>,
        failed: &Address,
        slot: u16,
        error: &Error,
    ) -> Option<(Address, Arc<ServerLink>)> {
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

/// Reads `MOVED slot host:port`, the node that has the slot from now on, and `ASK slot host:port`, the node to ask this once, because
/// the slot is on its way. An IPv6 address stands there without brackets. Nothing, if the node does not know by what name the
/// other is reached. A request that is sent on was not carried out.
fn redirect(reply: &Value, asked: &Address) -> Option<(ServerErrorKind, Option<Address>)> {
    let Value::ServerError(error) = reply else { return None };
    let to = || {
        let (host, port) = error.details()?.split(' ').nth(1)?.rsplit_once(':')?;
        named(host, port.parse().ok()?, asked)
    };
    let kind = error.kind().filter(|kind| matches!(kind, ServerErrorKind::Moved | ServerErrorKind::Ask))?;
    Some((kind, to()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirected(line: &str) -> Option<(ServerErrorKind, Option<String>)> {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let (kind, to) = redirect(&reply, &Address::Tcp { host: "a".to_owned(), port: 1 })?;
        Some((kind, to.map(|to| to.to_string())))
    }

    fn moved(text: &str) -> Option<String> {
        let (kind, to) = redirected(&format!("MOVED 1 {text}"))?;
        to.filter(|_| kind == ServerErrorKind::Moved)
    }

    #[test]
    fn address_of_a_node_is_read_in_each_form() {
        assert_eq!(moved("10.0.0.7:6381").as_deref(), Some("10.0.0.7:6381"));
        assert_eq!(moved("::1:6381").as_deref(), Some("[::1]:6381"));
        assert_eq!(moved(":6381").as_deref(), Some("a:6381"));
        for unknown in ["?:6381", "b:0", "b"] {
            assert_eq!(
                redirected(&format!("MOVED 1 {unknown}")),
                Some((ServerErrorKind::Moved, None)),
                "{unknown}"
            );
            assert_eq!(
                redirected(&format!("ASK 1 {unknown}")),
                Some((ServerErrorKind::Ask, None)),
                "{unknown}"
            );
        }
        assert_eq!(redirected("ASK 1 b:7000"), Some((ServerErrorKind::Ask, Some("b:7000".to_owned()))));
    }

    #[test]
    fn reply_of_another_kind_is_no_redirect() {
        let asked = Address::Tcp { host: "a".to_owned(), port: 1 };
        for reply in [Value::Okay, Value::Nil, Value::BulkString("MOVED 1 a:1".into())] {
            assert_eq!(redirect(&reply, &asked), None);
        }
        assert_eq!(redirected("ERR 1 b:7000"), None);
    }
}
