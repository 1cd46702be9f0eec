use crate::refusal::refusal;
use leasehold_core::{Error, ErrorKind, Result};
use redis::Value;

/// What a Sentinel says of a name.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Watched(Watched),
    /// It watches nothing of that name.
    Unknown,
}

/// Where a Sentinel sees the primary.
#[derive(Debug, PartialEq)]
pub(super) struct Watched {
    pub(super) host: String,
    pub(super) port: u16,
    /// Grows with every fail-over: of two words, that of the larger epoch is the newer one.
    pub(super) epoch: u64,
}

impl Answer {
    /// Reads the reply to `SENTINEL MASTER name`: a map, or in the older protocol a list.
    pub(super) fn read(reply: &Value) -> Result<Self> {
        if let Value::ServerError(error) = reply {
            let unknown = error.details().is_some_and(|text| text.starts_with("No such master"));
            return if unknown { Ok(Self::Unknown) } else { Err(refusal(error, None)) };
        }
        let host = field(reply, "ip").filter(|host| !host.is_empty());
        let port = field(reply, "port").and_then(|port| port.parse().ok());
        let epoch = field(reply, "config-epoch").and_then(|epoch| epoch.parse().ok());
        match (host, port) {
            (Some(host), Some(port)) => {
                Ok(Self::Watched(Watched { host, port, epoch: epoch.unwrap_or_default() }))
            }
            _ => Err(not_understood()),
        }
    }
}

fn field(reply: &Value, name: &str) -> Option<String> {
    let named = |key: &Value| text(key).is_some_and(|key| key == name);
    match reply {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| named(key)).and_then(|(_, value)| text(value)),
        Value::Array(list) => {
            list.chunks_exact(2).find(|pair| named(&pair[0])).and_then(|pair| text(&pair[1]))
        }
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

fn not_understood() -> Error {
    Error::new(ErrorKind::Misconfigured, "its answer tells no address")
        .with_help("look at what listens there: it may be no Sentinel")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn both_protocols_tell_the_same() {
        let words = ["name", "mm", "ip", "10.0.0.7", "port", "6380", "config-epoch", "12"];
        let list = Value::Array(words.map(word).into());
        let map = Value::Map(words.chunks(2).map(|pair| (word(pair[0]), word(pair[1]))).collect());
        let told = Answer::Watched(Watched { host: "10.0.0.7".to_owned(), port: 6380, epoch: 12 });
        assert_eq!(Answer::read(&list).unwrap(), told);
        assert_eq!(Answer::read(&map).unwrap(), told);
    }

    #[test]
    fn what_tells_no_address_is_refused() {
        for reply in
            [Value::Nil, Value::Okay, Value::Array(vec![word("ip"), word("h")]), Value::Map(Vec::new())]
        {
            assert_eq!(Answer::read(&reply).unwrap_err().kind(), ErrorKind::Misconfigured, "{reply:?}");
        }
    }
}
