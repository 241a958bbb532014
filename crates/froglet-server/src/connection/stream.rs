//! A client's socket, as it is or within TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// See the module.
#[derive(Debug)]
pub enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Within TLS.
    Tls(Box<TlsStream<TcpStream>>),
    /// A client that did not go on with TLS: there is nothing left to say to it.
    Gone,
}

impl Stream {
    /// Goes on within TLS.
    pub async fn secure(&mut self, acceptor: &TlsAcceptor) -> io::Result<()> {
        match std::mem::replace(self, Stream::Gone) {
            Stream::Plain(socket) => {
                *self = Stream::Tls(Box::new(acceptor.accept(socket).await?));
                Ok(())
            }
            other => {
                *self = other;
                Err(io::Error::other("it is within TLS already"))
            }
        }
    }

    /// Whether what is said is a secret.
    pub fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Writes what the socket takes now. Within TLS that is nothing: a record is written as a whole.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.try_write(bytes),
            Stream::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
            Stream::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Resolves when the client has closed its side and everything it sent has been read. While there
    /// is something to read, nobody can see whether more will come.
    pub async fn vanished(&self) {
        let socket = match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.get_ref().0,
            Stream::Gone => return,
        };
        if matches!(socket.peek(&mut [0]).await, Ok(1..)) {
            std::future::pending::<()>().await;
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Gone => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Gone => Poll::Ready(Ok(())),
        }
    }
}
