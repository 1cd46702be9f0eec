//! The four-letter words of ZooKeeper: what a server tells of itself to any client, if its configuration allows it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const MAX_ANSWER: u64 = 64 * 1024;

/// Asks one server for its values; `None` if the word is not allowed. Fails if it does not answer within `limit`.
pub(crate) async fn ask(
    server: (&str, u16),
    word: &str,
    limit: Duration,
) -> io::Result<Option<BTreeMap<String, String>>> {
    let asked = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
        io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = timeout(limit, asked).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(parse(&answer))
}

/// Reads lines of `key: value` or `key=value`.
fn parse(answer: &str) -> Option<BTreeMap<String, String>> {
    if answer.contains("not in the whitelist") {
        return None;
    }
    let pairs = answer.lines().filter_map(|line| line.split_once(": ").or_else(|| line.split_once('=')));
    Some(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_servers_are_read() {
        let values =
            parse("Zookeeper version: 3.8.0-5a02, built on 2022\nMode: leader\ntickTime=2000\n\n").unwrap();
        assert_eq!(values.get("Zookeeper version").map(String::as_str), Some("3.8.0-5a02, built on 2022"));
        assert_eq!(values.get("Mode").map(String::as_str), Some("leader"));
        assert_eq!(values.get("tickTime").map(String::as_str), Some("2000"));
        assert_eq!(parse("conf is not executed because it is not in the whitelist.\n"), None);
    }
}
