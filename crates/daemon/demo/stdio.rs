//! The demo servers' end of standard input and output: one JSON object a line, and waiting that can be cut short.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _, Read as _, Write as _},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// A longer line is none of ours.
const LINE_BYTES: u64 = 4 * 1024 * 1024;

/// Messages that may wait while a tool is busy.
const QUEUE: usize = 64;

/// Where messages go.
type Output = Box<dyn FnMut(&Value) + Send>;

/// Messages in, messages out.
pub(super) struct Pipe {
    input: Receiver<Value>,
    /// What came in while a tool was waiting, and was not about it.
    early: VecDeque<Value>,
    output: Output,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// The time is over.
    Enough,
    /// The request that waited was cancelled, or nobody is left to answer.
    Cancelled,
}

impl Pipe {
    /// Standard input and output of this process.
    pub(super) fn standard() -> Pipe {
        let (sender, input) = sync_channel(QUEUE);
        // Ends with the input; the process ends with it.
        thread::spawn(move || read_lines(&sender));
        let mut output = io::stdout();
        let write = move |message: &Value| {
            // A reader that is gone closes the input as well, and that ends us.
            let _ = writeln!(output, "{message}").and_then(|()| output.flush());
        };
        Pipe { input, early: VecDeque::new(), output: Box::new(write) }
    }

    /// For one request that came another way. Waits are cut short when the other half is dropped.
    pub(super) fn for_one(output: Output) -> (Pipe, SyncSender<Value>) {
        let (sender, input) = sync_channel(1);
        (Pipe { input, early: VecDeque::new(), output }, sender)
    }

    /// The next message; none at the end of the input.
    pub(super) fn next(&mut self) -> Option<Value> {
        self.early.pop_front().or_else(|| self.input.recv().ok())
    }

    /// Writes one message.
    pub(super) fn write(&mut self, message: &Value) {
        (self.output)(message);
    }

    /// Writes a notification.
    pub(super) fn notify(&mut self, method: &str, params: &Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Waits on behalf of a request, until it is cancelled.
    pub(super) fn wait(&mut self, time: Duration, request: &Value) -> Waited {
        let end = Instant::now() + time;
        loop {
            match self.input.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => return Waited::Enough,
                Err(RecvTimeoutError::Disconnected) => return Waited::Cancelled,
                Ok(message) if cancels(&message, request) => return Waited::Cancelled,
                Ok(message) if self.early.len() < QUEUE => self.early.push_back(message),
                // Nobody sane asks a clock so much at once; what is dropped here times out over there.
                Ok(_) => (),
            }
        }
    }
}

fn cancels(message: &Value, request: &Value) -> bool {
    message.get("method").and_then(Value::as_str) == Some("notifications/cancelled")
        && message.pointer("/params/requestId") == Some(request)
}

fn read_lines(sender: &SyncSender<Value>) {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => (),
        }
        // What is no message gets no answer: there is no id to answer to.
        let Ok(message) = serde_json::from_slice(&line) else { continue };
        if sender.send(message).is_err() {
            return;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What a server wrote.
    #[derive(Clone, Default)]
    pub(crate) struct Written(Arc<Mutex<Vec<Value>>>);

    impl Written {
        pub(crate) fn messages(&self) -> Vec<Value> {
            self.0.lock().unwrap().clone()
        }
    }

    /// A pipe with these messages in it, which then stays open.
    pub(crate) fn pipe(messages: &[Value]) -> (Pipe, Written, SyncSender<Value>) {
        let (sender, input) = sync_channel(QUEUE);
        messages.iter().for_each(|message| sender.send(message.clone()).unwrap());
        let written = Written::default();
        let written_to = written.clone();
        let output = Box::new(move |message: &Value| written_to.0.lock().unwrap().push(message.clone()));
        (Pipe { input, early: VecDeque::new(), output }, written, sender)
    }

    #[test]
    fn a_wait_ends_early_for_its_own_cancellation_only() {
        let cancel = |id: u64| json!({ "method": "notifications/cancelled", "params": { "requestId": id } });
        let (mut pipe, _, _open) = pipe(&[cancel(1), json!({ "id": 8, "method": "ping" }), cancel(7)]);
        assert_eq!(pipe.wait(Duration::from_secs(60), &json!(7)), Waited::Cancelled);
        assert_eq!(pipe.next(), Some(cancel(1)));
        assert_eq!(pipe.next().unwrap()["method"], "ping");
        assert_eq!(pipe.wait(Duration::ZERO, &json!(7)), Waited::Enough);
    }
}
