//! A client that speaks to an MCP server on its standard input and output, one message a line.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::{Value, json};

use crate::wait::{LONG, until};

/// A server that was started, with all it says. Killed when dropped.
#[derive(Debug)]
pub struct StdioClient {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Messages that came and were not asked for yet.
    early: VecDeque<Value>,
    last_id: u64,
}

impl StdioClient {
    /// Starts the server. Its standard error is kept until it has ended.
    pub fn start(command: &mut Command) -> StdioClient {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        // Ends with the server.
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let input = child.stdin.take();
        StdioClient { child, input, lines, early: VecDeque::new(), last_id: 0 }
    }

    /// Writes a line as it is.
    pub fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// The next message, whatever it is.
    ///
    /// # Panics
    /// When a line is no message.
    pub fn heard(&mut self) -> Value {
        self.early.pop_front().unwrap_or_else(|| self.line())
    }

    fn line(&self) -> Value {
        let line = self.lines.recv_timeout(LONG).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request with raw params; returns its id.
    pub fn begin(&mut self, method: &str, params: &str) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
        id
    }

    /// The answer with this id. Other messages stay for [`StdioClient::heard`].
    pub fn answer(&mut self, id: u64) -> Value {
        if let Some(at) = self.early.iter().position(|message| answers(message, id)) {
            return self.early.remove(at).unwrap();
        }
        loop {
            let message = self.line();
            if answers(&message, id) {
                return message;
            }
            self.early.push_back(message);
        }
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, method: &str, params: &str) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Sends a notification with raw params.
    pub fn notify(&mut self, method: &str, params: &str) {
        self.write(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    /// Shakes hands, and returns the result.
    pub fn initialize(&mut self, revision: &str) -> Value {
        let params = json!({
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": { "name": "testkit", "version": "1" },
        });
        let answer = self.request("initialize", &params.to_string());
        self.notify("notifications/initialized", "{}");
        answer["result"].clone()
    }

    /// Says no more, and waits for the end: how it ended, what it said last, and its standard error.
    pub fn close(mut self) -> (ExitStatus, Vec<Value>, String) {
        self.input = None;
        let status = until("the server to end", || self.child.try_wait().unwrap());
        let mut rest: Vec<Value> = self.early.drain(..).collect();
        rest.extend(self.lines.iter().map(|line| serde_json::from_str(&line).unwrap()));
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (status, rest, errors)
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answers(message: &Value, id: u64) -> bool {
    message["id"] == id && message.get("method").is_none()
}
