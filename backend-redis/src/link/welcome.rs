use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What the client library says first on a connection that is to take messages of the server's own accord.
const HELLO: &[u8] = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
/// What it wants to hear: a map, whatever is in it.
const WELCOME: &[u8] = b"%0\r\n";

/// A stream that answers the first `HELLO` of the client library by itself.
///
/// The library hands messages on only if it has said `HELLO 3` itself, without a word of ours in it, and a server that
/// wants a password refuses that. What is to be said is said by the [greeting](super::greeting), right afterwards.
#[derive(Debug)]
pub(super) struct Welcoming<S> {
    stream: S,
    /// Bytes of [`HELLO`] that were heard.
    heard: usize,
    /// Bytes of [`WELCOME`] that were said.
    said: usize,
}

impl<S> Welcoming<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, heard: 0, said: 0 }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Welcoming<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let rest = &HELLO[self.heard..];
        if rest.is_empty() || bytes.is_empty() {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        let length = rest.len().min(bytes.len());
        if rest[..length] != bytes[..length] {
            return Poll::Ready(Err(io::Error::other(
                "the client library greets in a way that is not known here",
            )));
        }
        self.heard += length;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Welcoming<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.heard == HELLO.len() && self.said < WELCOME.len() {
            let rest = &WELCOME[self.said..];
            let length = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..length]);
            self.said += length;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}
