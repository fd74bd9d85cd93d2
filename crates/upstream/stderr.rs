//! What a server writes on stderr: drained always, logged in moderation.

use crate::burst::Burst;
use crate::counters::Counters;
use crate::spec::Spec;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Where a line is cut.
const LINE: usize = 2048;
/// What is looked at before the cut, so that a secret across the cut is still found.
const HEAD: usize = 2 * LINE;
/// Lines that are logged in one window.
const BURST: u32 = 50;
const WINDOW: Duration = Duration::from_secs(5);

/// The last line on stderr, for the reason of an exit.
#[derive(Clone, Default)]
pub(crate) struct LastLine(Arc<Mutex<Vec<u8>>>);

impl LastLine {
    /// The line made safe to show, if there was one.
    pub(crate) fn clean(&self, spec: &Spec) -> Option<String> {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = clean(&line, spec);
        (!text.is_empty()).then_some(text)
    }

    fn set(&self, line: &[u8]) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clear();
        last.extend_from_slice(line);
    }
}

/// Reads until the end. A server never blocks because nobody reads its stderr (spec P-03).
pub(crate) async fn drain(
    mut pipe: impl AsyncRead + Unpin,
    spec: Arc<Spec>,
    counters: Arc<Counters>,
    last: LastLine,
) {
    let mut sink = Sink { spec, counters, last, burst: Burst::new(BURST, WINDOW), line: Vec::new() };
    let mut chunk = [0_u8; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        let mut rest = chunk.get(..count).unwrap_or_default();
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            sink.extend(line);
            sink.end_line();
            rest = after.get(1..).unwrap_or_default();
        }
        sink.extend(rest);
    }
    sink.end_line();
    sink.tell_dropped();
}

struct Sink {
    spec: Arc<Spec>,
    counters: Arc<Counters>,
    last: LastLine,
    burst: Burst,
    line: Vec<u8>,
}

impl Sink {
    /// Keeps the head of a line; the tail of an over-long one is let go.
    fn extend(&mut self, bytes: &[u8]) {
        let room = HEAD.saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }

    fn end_line(&mut self) {
        if !self.line.trim_ascii().is_empty() {
            self.last.set(&self.line);
            self.log();
        }
        self.line.clear();
    }

    fn log(&mut self) {
        let Some(dropped) = self.burst.admit() else {
            self.counters.add(|counters| &counters.stderr_dropped);
            return;
        };
        let text = clean(&self.line, &self.spec);
        let (tenant, upstream) = (&*self.spec.tenant, &*self.spec.id);
        if dropped > 0 {
            tracing::info!(tenant, upstream, dropped, "stderr: {text}");
        } else {
            tracing::info!(tenant, upstream, "stderr: {text}");
        }
    }

    fn tell_dropped(&self) {
        let dropped = self.burst.untold();
        if dropped > 0 {
            let (tenant, upstream) = (&*self.spec.tenant, &*self.spec.id);
            tracing::info!(tenant, upstream, dropped, "stderr: more lines than are logged");
        }
    }
}

/// Text from a server made safe for logs and screens: cut, secrets of its environment blanked, control and direction characters
/// escaped.
pub(crate) fn clean(line: &[u8], spec: &Spec) -> String {
    let head = line.get(..HEAD).unwrap_or(line);
    let mut text = String::from_utf8_lossy(head).trim().to_owned();
    for value in spec.secrets() {
        if text.contains(&*value) {
            text = text.replace(&*value, "***");
        }
    }
    let mut out = String::with_capacity(text.len().min(LINE));
    for character in text.chars() {
        if out.len() >= LINE {
            out.push('…');
            break;
        }
        let hidden = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if character.is_control() || hidden {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{LINE, clean};
    use crate::scripted::Scripted;

    #[test]
    fn what_a_server_writes_is_made_safe_to_show() {
        let mut scripted = Scripted::new("");
        let env = [("TOKEN", "s3cr3t-s3cr3t"), ("LEVEL", "debug")];
        scripted.launch().env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let cases: [(&[u8], &str); 6] = [
            (b"  plain \r", "plain"),
            (b"", ""),
            (b"token=s3cr3t-s3cr3t at debug", "token=*** at debug"),
            (b"\x1b]52;c;x\x07 a\rb\x00", "\\u{1b}]52;c;x\\u{7} a\\rb\\u{0}"),
            ("caf\u{e9} \u{202e}evil\u{200b}".as_bytes(), "caf\u{e9} \\u{202e}evil\\u{200b}"),
            (b"\xff ok", "\u{fffd} ok"),
        ];
        for (line, want) in cases {
            assert_eq!(clean(line, &scripted.spec), want);
        }
    }

    #[test]
    fn a_long_line_is_cut_and_a_secret_across_the_cut_is_found() {
        let mut scripted = Scripted::new("");
        scripted.launch().env = vec![("TOKEN".to_owned(), "s3cr3t-s3cr3t".to_owned())];
        let line = format!("{}s3cr3t-s3cr3t{}", "x".repeat(LINE - 4), "y".repeat(LINE));
        let text = clean(line.as_bytes(), &scripted.spec);
        assert!(
            !text.contains("s3cr") && text.ends_with('\u{2026}') && text.len() < LINE + 8,
            "{}",
            text.len()
        );
    }
}
