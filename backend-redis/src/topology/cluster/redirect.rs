//! Where a node sends those who ask it for what lies elsewhere. A request that was sent on was not carried out.

use crate::target::Address;
use redis::{ServerErrorKind, Value};

/// Where to ask instead.
#[derive(Debug, PartialEq)]
pub(super) enum Redirect {
    /// There, from now on.
    Moved(Address),
    /// There, this once: the slot is on its way.
    Ask(Address),
    /// To a node of which it does not know by what name it is reached.
    Nowhere,
}

impl Redirect {
    /// Reads `MOVED slot host:port` and `ASK slot host:port`. An empty host is that of the node that was asked.
    pub(super) fn of(reply: &Value, asked: &Address) -> Option<Self> {
        let Value::ServerError(error) = reply else { return None };
        let to = || address(error.details()?.split(' ').nth(1)?, asked);
        match error.kind()? {
            ServerErrorKind::Moved => Some(to().map_or(Self::Nowhere, Self::Moved)),
            ServerErrorKind::Ask => Some(to().map_or(Self::Nowhere, Self::Ask)),
            _ => None,
        }
    }
}

/// True if the reply says that the cluster is not what it was taken for.
pub(super) fn is_in_doubt(reply: &Value) -> bool {
    let Value::ServerError(error) = reply else { return false };
    matches!(error.kind(), Some(ServerErrorKind::ClusterDown | ServerErrorKind::ReadOnly))
}

/// An IPv6 address stands there without brackets: the port is behind the last colon.
fn address(text: &str, asked: &Address) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    named(host, port.parse().ok()?, asked)
}

/// The address of a node as another one names it, `?` if it does not know; an empty host is its own.
pub(super) fn named(host: &str, port: u16, asked: &Address) -> Option<Address> {
    let host = match (host, asked) {
        ("?", _) => return None,
        ("", Address::Tcp { host, .. }) => host,
        (host, _) => host,
    };
    (!host.is_empty() && port != 0).then(|| Address::Tcp { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Address {
        Address::Tcp { host: "a".to_owned(), port: 1 }
    }

    fn to(text: &str) -> Option<String> {
        address(text, &asked()).map(|address| address.to_string())
    }

    #[test]
    fn nodes_are_named_in_several_ways() {
        assert_eq!(to("10.0.0.7:6381").as_deref(), Some("10.0.0.7:6381"));
        assert_eq!(to("::1:6381").as_deref(), Some("[::1]:6381"));
        assert_eq!(to(":6381").as_deref(), Some("a:6381"));
        assert_eq!(to("?:6381"), None);
        assert_eq!(to("b:0"), None);
        assert_eq!(to("b"), None);
    }

    #[test]
    fn a_node_whose_name_is_not_known_yet_is_nowhere() {
        for reply in [&b"-MOVED 1 ?:7000\r\n"[..], b"-ASK 1 b:0\r\n"] {
            let reply = redis::parse_redis_value(reply).unwrap();
            assert_eq!(Redirect::of(&reply, &asked()), Some(Redirect::Nowhere));
        }
        let reply = redis::parse_redis_value(b"-MOVED 1 b:7000\r\n").unwrap();
        assert!(matches!(Redirect::of(&reply, &asked()), Some(Redirect::Moved(_))));
    }

    #[test]
    fn other_replies_are_no_redirect() {
        for reply in [Value::Okay, Value::Nil, Value::BulkString("MOVED 1 a:1".into())] {
            assert_eq!(Redirect::of(&reply, &asked()), None);
        }
    }
}
