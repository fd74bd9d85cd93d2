//! Standard input and output as lines, each in a thread of its own: neither waits for the network, nor the other way.

use std::{
    io::{self, BufRead, Read, Write as _},
    thread,
};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

/// The longest line of a client, in bytes.
pub(super) const LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Lines that may wait on either side; more make their writer wait.
const QUEUE: usize = 8;

/// What the client wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line that is not empty, without its end.
    Whole(Bytes),
    /// A line that is longer than [`LINE_BYTES`], left out.
    TooLong,
}

/// The way to the client.
#[derive(Clone, Debug)]
pub(super) struct Out(mpsc::Sender<Bytes>);

impl Out {
    /// Puts one message on a line of its own. Nobody hears it when the client has gone.
    pub(super) async fn say(&self, message: Bytes) {
        // INVARIANT: no line break inside, so that one line is one message (spec P-01).
        let message = wire::Pieces::one(message).join();
        let _ = self.0.send(message).await;
    }

    /// Waits until the client does not read any more.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// The lines of the standard input. The thread ends with the input, or with the process.
pub(super) fn input() -> mpsc::Receiver<Line> {
    let (sender, lines) = mpsc::channel(QUEUE);
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = read_line(&mut input, LINE_BYTES) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The standard output, and the word that all of it is written. The thread ends with the last `Out`, or when nobody
/// reads.
pub(super) fn output() -> (Out, oneshot::Receiver<()>) {
    let (sender, mut messages) = mpsc::channel::<Bytes>(QUEUE);
    let (done, written) = oneshot::channel();
    thread::spawn(move || {
        let mut output = io::stdout().lock();
        while let Some(message) = messages.blocking_recv() {
            let line = output.write_all(&message).and_then(|()| output.write_all(b"\n"));
            if line.and_then(|()| output.flush()).is_err() {
                break;
            }
        }
        let _ = done.send(());
    });
    (Out(sender), written)
}

/// The next line; none at the end of the input.
fn read_line(input: &mut impl BufRead, most: u64) -> Option<Line> {
    loop {
        let mut line = Vec::new();
        if Read::by_ref(input).take(most + 1).read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        if line.len() as u64 > most && line.last() != Some(&b'\n') {
            skip_line(input)?;
            return Some(Line::TooLong);
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            return Some(Line::Whole(Bytes::copy_from_slice(text)));
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> Option<()> {
    loop {
        let here = input.fill_buf().ok()?;
        match memchr::memchr(b'\n', here) {
            Some(end) => {
                input.consume(end + 1);
                return Some(());
            }
            None if here.is_empty() => return Some(()),
            None => {
                let length = here.len();
                input.consume(length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_or_not_at_all() {
        let mut input = io::Cursor::new("{}\r\n\n  \nlonger than ten\n[1]\nrest");
        let lines: Vec<_> = std::iter::from_fn(|| read_line(&mut input, 10)).collect();
        let whole = |text: &'static str| Line::Whole(Bytes::from_static(text.as_bytes()));
        assert_eq!(lines, [whole("{}"), Line::TooLong, whole("[1]"), whole("rest")]);
        let mut endless = io::Cursor::new("x".repeat(100));
        assert_eq!(read_line(&mut endless, 10), Some(Line::TooLong));
        assert_eq!(read_line(&mut endless, 10), None);
    }
}
