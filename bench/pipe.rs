//! The closed loop over the pipes of a stdio server: what a client gets that starts its server itself.

use std::{
    collections::VecDeque,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{
    ask::{Query, Work, number_of},
    failure::Failure,
    json,
    latency::Latency,
    load::Run,
    request::{FIRST, Site},
    service::Era,
};

/// Room for one read, in bytes.
const READ: usize = 64 * 1024;

/// A stdio server and requests in flight to it.
#[derive(Debug)]
pub(crate) struct Pipe {
    // Killed when dropped.
    _child: Child,
    input: ChildStdin,
    output: ChildStdout,
    query: Query,
    next: u64,
    depth: usize,
    bytes: Vec<u8>,
}

impl Pipe {
    /// Starts the echo with so many tools; `depth` requests are in flight at a time.
    pub(crate) fn open(program: &Path, tools: usize, depth: usize) -> Result<Pipe, Failure> {
        let mut child = Command::new(program)
            .args(["__echo", "--stdio", "--tools", &tools.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::new("a child process without pipes"));
        };
        let nowhere = Site {
            address: ([127, 0, 0, 1], 0).into(),
            path: String::new(),
            token: String::new(),
            prefix: String::new(),
        };
        let query = Query::new(&nowhere, Era::Legacy, Work::Echo, None);
        Ok(Pipe { _child: child, input, output, query, next: FIRST, depth, bytes: Vec::with_capacity(READ) })
    }

    /// Asks for this long. The caller bounds the time.
    pub(crate) async fn run(&mut self, time: Duration) -> Result<Run, Failure> {
        let begun = Instant::now();
        let mut latency = Latency::new()?;
        // Answers of this server come in order; that they do is checked.
        let mut sent = VecDeque::new();
        let mut out = Vec::new();
        for _ in 0..self.depth {
            self.ask(&mut out, &mut sent);
        }
        while !sent.is_empty() {
            self.input.write_all(&out).await?;
            out.clear();
            self.bytes.reserve(READ);
            if self.output.read_buf(&mut self.bytes).await? == 0 {
                return Err(Failure::new("the server ended instead of answering"));
            }
            let bytes = std::mem::take(&mut self.bytes);
            let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
            let lines = bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
            for line in lines.filter(|line| !line.is_empty()) {
                let (number, at) = sent.pop_front().ok_or_else(|| Failure::new("an answer to nothing"))?;
                check(line, number)?;
                latency.record(Instant::now() - at);
                if begun.elapsed() < time {
                    self.ask(&mut out, &mut sent);
                }
            }
            self.bytes = bytes;
            self.bytes.drain(..whole);
        }
        Ok(Run { time: begun.elapsed(), latency })
    }

    fn ask(&mut self, out: &mut Vec<u8>, sent: &mut VecDeque<(u64, Instant)>) {
        self.next += 1;
        out.extend_from_slice(self.query.line(self.next));
        out.push(b'\n');
        sent.push_back((self.next, Instant::now()));
    }
}

fn check(line: &[u8], number: u64) -> Result<(), Failure> {
    let text = json::string(line, "text").and_then(|text| text.strip_prefix(b"say "));
    match number_of(line) == Some(number) && text == Some(number.to_string().as_bytes()) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "instead of an answer to {number} came `{}`",
            String::from_utf8_lossy(line)
        ))),
    }
}
