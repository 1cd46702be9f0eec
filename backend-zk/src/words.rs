//! ZooKeeper's four-letter words: what a server tells of itself to whoever connects, if it was set up to.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The most that is read of an answer, in bytes.
const MAX_ANSWER: u64 = 64 * 1024;

/// What a server has said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// `key: value` or `key=value`, a line each.
    This(BTreeMap<String, String>),
    /// That this word is not allowed.
    NotAllowed,
}

/// Asks one server.
///
/// # Errors
///
/// If it does not answer in time.
pub(crate) async fn ask(server: (&str, u16), word: &str, limit: Duration) -> io::Result<Said> {
    let asked = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
        io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = timeout(limit, asked).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(read(&answer))
}

fn read(answer: &str) -> Said {
    if answer.contains("not in the whitelist") {
        return Said::NotAllowed;
    }
    let pairs = answer.lines().filter_map(|line| line.split_once(": ").or_else(|| line.split_once('=')));
    Said::This(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_servers_write_them() {
        let Said::This(facts) =
            read("Zookeeper version: 3.8.0-5a02, built on 2022\nMode: leader\ntickTime=2000\n\n")
        else {
            panic!("not allowed");
        };
        assert_eq!(facts.get("Zookeeper version").map(String::as_str), Some("3.8.0-5a02, built on 2022"));
        assert_eq!(facts.get("Mode").map(String::as_str), Some("leader"));
        assert_eq!(facts.get("tickTime").map(String::as_str), Some("2000"));
        assert_eq!(read("conf is not executed because it is not in the whitelist.\n"), Said::NotAllowed);
    }
}
