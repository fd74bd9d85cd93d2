//! A connection that keeps alive: a request, its whole answer, and the next.

use std::{net::SocketAddr, time::Duration};

use memchr::memmem;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    failure::{Failure, within},
    http::{Message, Progress, Whole},
};

/// No single answer takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Room for one read, in bytes.
const READ: usize = 64 * 1024;

/// A connection on which one exchange follows another.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
    whole: Option<Whole>,
}

impl Connection {
    /// Opens one.
    pub(crate) async fn open(address: SocketAddr) -> Result<Connection, Failure> {
        let stream = within(PATIENCE, async { Ok(TcpStream::connect(address).await?) }).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, bytes: Vec::with_capacity(READ), whole: None })
    }

    /// The same, for a caller who does not bound the time.
    pub(crate) async fn exchange_once(&mut self, request: &[u8]) -> Result<Message<'_>, Failure> {
        within(PATIENCE, self.exchange(request)).await
    }

    /// Sends a request and reads its whole answer. The caller bounds the time.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Message<'_>, Failure> {
        self.send(request).await?;
        let mut progress = Progress::default();
        loop {
            self.read().await?;
            if let Some(whole) = progress.look(&self.bytes)? {
                if whole.end != self.bytes.len() {
                    return Err(Failure::new("something followed the answer that nobody asked for"));
                }
                return Ok(self.whole.insert(whole).message(&self.bytes));
            }
        }
    }

    /// Sends a request and reads the head of its answer: the body is a stream without an end.
    pub(crate) async fn begin(&mut self, request: &[u8]) -> Result<Message<'_>, Failure> {
        self.send(request).await?;
        while memmem::find(&self.bytes, b"\r\n\r\n").is_none() {
            within(PATIENCE, self.read()).await?;
        }
        Ok(Message { head: &self.bytes, body: b"" })
    }

    /// Sends a request and does not wait for the answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        self.bytes.clear();
        Ok(self.stream.write_all(request).await?)
    }

    async fn read(&mut self) -> Result<(), Failure> {
        self.bytes.reserve(READ);
        match self.stream.read_buf(&mut self.bytes).await? {
            0 => Err(Failure::new("the connection was closed instead of an answer")),
            _ => Ok(()),
        }
    }
}
