use crate::subject::Address;
use leasehold_core::{Error, ErrorKind, Result};
use serde_json::Value;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// etcd's own gateway of JSON over HTTP, with one connection for each question.
pub(super) struct Gateway {
    members: Vec<String>,
    current: AtomicUsize,
    patience: Duration,
}

impl Gateway {
    /// The members of a URL `etcd://host:port[,host:port]…/prefix[?…]`, and its prefix.
    pub(super) fn at(address: &Address) -> (Self, String) {
        let url = address.server.trim_start_matches("etcd://");
        let (members, prefix) = url.split_once('/').unwrap();
        let members = members.split(',').map(ToOwned::to_owned).collect();
        let prefix = prefix.split('?').next().unwrap_or_default();
        (Self { members, current: AtomicUsize::new(0), patience: address.patience }, prefix.to_owned())
    }

    /// Asks a member, and the next one the next time if it does not answer.
    pub(super) async fn ask(&self, path: &str, question: &Value) -> Result<Value> {
        let (at, mut answer) = (self.current.load(Ordering::Relaxed), String::new());
        let asked = async { self.open(at, path, question).await?.read_to_string(&mut answer).await };
        let asked = timeout(self.patience, asked).await;
        if !matches!(asked, Ok(Ok(_))) {
            self.current.store((at + 1) % self.members.len(), Ordering::Relaxed);
            return Err(Error::new(ErrorKind::Indeterminate, format!("no answer to {path}: {asked:?}")));
        }
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let mut value: Value = serde_json::from_str(body).map_err(|why| unreadable(path, why))?;
        // The answer of a stream stands in another one.
        let value = if value["result"].is_object() { value["result"].take() } else { value };
        match value["error"].as_str() {
            Some(error) if error.contains("lease not found") => Ok(Value::Null),
            Some(error) => Err(Error::new(ErrorKind::Indeterminate, format!("{path}: {error}"))),
            None => Ok(value),
        }
    }

    /// Waits until a watch has fired, or its connection has ended.
    pub(super) async fn watch(&self, watch: &Value) {
        let at = self.current.load(Ordering::Relaxed);
        let Ok(mut stream) =
            self.open(at, "/v3/watch", &serde_json::json!({ "create_request": watch })).await
        else {
            return;
        };
        let (mut heard, mut piece) = (Vec::new(), [0; 1024]);
        while let Ok(1..) =
            stream.read(&mut piece).await.inspect(|count| heard.extend_from_slice(&piece[..*count]))
        {
            if String::from_utf8_lossy(&heard).contains("\"events\"") {
                return;
            }
        }
    }

    async fn open(&self, member: usize, path: &str, question: &Value) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.members[member]).await?;
        let body = question.to_string();
        let head = format!("POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await?;
        Ok(stream)
    }
}

fn unreadable(path: &str, why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Indeterminate, format!("the answer to {path} cannot be read: {why}"))
}

/// In base64, as the gateway has keys and values.
pub(super) fn encoded(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number =
            (0..3).fold(0_usize, |number, at| number << 8 | usize::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = if at <= three.len() { DIGITS[number >> (18 - 6 * at) & 63] } else { b'=' };
            text.push(char::from(digit));
        }
    }
    text
}
