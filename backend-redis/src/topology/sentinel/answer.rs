use crate::reply::text;
use crate::server_error::refusal;
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
    pub(super) epoch: Epoch,
}

/// How new a word is: of two words, that of the larger epoch is the newer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch {
    /// Grows with every fail-over.
    number: u64,
    /// False from a Sentinel that is in the middle of one: it has the new number, and names the old server.
    pub(super) is_settled: bool,
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
        let number = field(reply, "config-epoch").and_then(|epoch| epoch.parse().ok());
        let is_moving = field(reply, "flags").is_some_and(|flags| flags.contains("failover_in_progress"));
        let epoch = Epoch { number: number.unwrap_or_default(), is_settled: !is_moving };
        match (host, port) {
            (Some(host), Some(port)) => Ok(Self::Watched(Watched { host, port, epoch })),
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
        let epoch = Epoch { number: 12, is_settled: true };
        let told = Answer::Watched(Watched { host: "10.0.0.7".to_owned(), port: 6380, epoch });
        assert_eq!(Answer::read(&list).unwrap(), told);
        assert_eq!(Answer::read(&map).unwrap(), told);
    }

    #[test]
    fn the_word_of_a_sentinel_that_is_at_it_is_older_than_that_of_one_that_has_heard() {
        let epoch = |number, flags| {
            let words = ["ip", "h", "port", "1", "config-epoch", number, "flags", flags];
            match Answer::read(&Value::Array(words.map(word).into())).unwrap() {
                Answer::Watched(watched) => watched.epoch,
                Answer::Unknown => panic!("it names a server"),
            }
        };
        let (before, at_it) = (epoch("4", "master"), epoch("5", "master,failover_in_progress"));
        assert!(before < at_it && at_it < epoch("5", "master"));
    }

    #[test]
    fn reply_without_an_address_is_refused() {
        for reply in
            [Value::Nil, Value::Okay, Value::Array(vec![word("ip"), word("h")]), Value::Map(Vec::new())]
        {
            assert_eq!(Answer::read(&reply).unwrap_err().kind(), ErrorKind::Misconfigured, "{reply:?}");
        }
    }
}
