//! Something between clients and a server that changes what clients say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

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

/// A piece of what clients say that arrives late.
pub(crate) struct Latecomer(watch::Sender<Arrival>);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Arrival {
    NotSaid,
    KeptBack,
    Arrives,
    Answered,
}

impl Latecomer {
    pub(crate) async fn is_kept_back(&mut self) {
        self.0.subscribe().wait_for(|now| *now >= Arrival::KeptBack).await.unwrap();
    }

    /// Lets it arrive, and returns once the server has answered it.
    pub(crate) async fn arrives(&mut self) {
        self.0.send_replace(Arrival::Arrives);
        self.0.subscribe().wait_for(|now| *now == Arrival::Answered).await.unwrap();
    }
}

/// Listens on the port that it answers, and hands everything on, but keeps back the first piece with these bytes, as they are or in
/// hexadecimal. It arrives also if its client has gone.
pub(crate) async fn late(server: u16, bytes: &[u8]) -> (u16, Latecomer) {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (arrival, bytes) = (watch::Sender::new(Arrival::NotSaid), bytes.to_vec());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let latecomer = Latecomer(arrival.clone());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let (arrival, its_arrival, is_its) =
                (arrival.clone(), arrival.clone(), Arc::<AtomicBool>::default());
            let (bytes, hex, is_the_one) = (bytes.clone(), hex.clone(), Arc::clone(&is_its));
            tokio::spawn(async move {
                let mut said = [0; 65_536];
                while let Ok(count @ 1..) = from_server.read(&mut said).await {
                    if is_the_one.load(Ordering::SeqCst) {
                        its_arrival.send_replace(Arrival::Answered);
                    }
                    // The client may have gone.
                    let _ = to_client.write_all(&said[..count]).await;
                }
            });
            tokio::spawn(async move {
                let mut said = [0; 65_536];
                while let Ok(count @ 1..) = from_client.read(&mut said).await {
                    let said = &said[..count];
                    let is_said = |what: &[u8]| said.windows(what.len()).any(|part| part == what);
                    let is_first = *arrival.borrow() == Arrival::NotSaid;
                    if is_first && (is_said(&bytes) || is_said(hex.as_bytes())) {
                        arrival.send_replace(Arrival::KeptBack);
                        arrival.subscribe().wait_for(|now| *now == Arrival::Arrives).await.unwrap();
                        is_its.store(true, Ordering::SeqCst);
                    }
                    to_server.write_all(said).await.unwrap();
                }
            });
        }
    });
    (port, latecomer)
}
