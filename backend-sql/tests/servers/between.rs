//! Something between clients and a server that changes what clients say.

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

/// Listens on the port that it answers, and hands on what clients say as `change` leaves it; from where that is false, a
/// connection is not listened to any more.
pub(crate) async fn between(server: u16, change: impl Fn(&mut [u8]) -> bool + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
            let change = change.clone();
            tokio::spawn(async move {
                let mut said = [0; 65_536];
                while let Ok(count @ 1..) = from_client.read(&mut said).await {
                    if !change(&mut said[..count]) {
                        return std::future::pending().await;
                    }
                    to_server.write_all(&said[..count]).await.unwrap();
                }
            });
        }
    });
    port
}
