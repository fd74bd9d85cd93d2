//! How many frames of an HTTP/2 connection carry nothing. The library answers each SETTINGS and PING; a client that
//! sends nothing else makes us work for nobody (security 41, CVE-2019-9515, CVE-2019-9512).

use std::time::{Duration, Instant};

/// Frames without content that a client may send in one window.
const MOST: u32 = 1_000;
const WINDOW: Duration = Duration::from_secs(10);

/// The length of a frame's head (RFC 9113, section 4.1).
const HEAD: usize = 9;
const PRIORITY: u8 = 0x2;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
const ACK: u8 = 0x1;

/// Follows the frames of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames {
    head: [u8; HEAD],
    /// How much of the next head is there.
    held: usize,
    /// How much of the last frame's content is still to come.
    content: usize,
    since: Instant,
    idle: u32,
}

impl Frames {
    /// Before the first frame.
    pub(crate) fn new() -> Frames {
        Frames { head: [0; HEAD], held: 0, content: 0, since: Instant::now(), idle: 0 }
    }

    /// Reads on; none when there were too many frames without content. `self` is as before then.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Option<()> {
        let mut next = *self;
        let mut rest = bytes;
        while !rest.is_empty() {
            if next.content > 0 {
                let skipped = next.content.min(rest.len());
                next.content -= skipped;
                rest = rest.get(skipped..).unwrap_or_default();
                continue;
            }
            let missing = HEAD.saturating_sub(next.held).min(rest.len());
            let (taken, left) = rest.split_at_checked(missing)?;
            next.head.get_mut(next.held..next.held + missing)?.copy_from_slice(taken);
            next.held += missing;
            rest = left;
            if next.held == HEAD {
                next.held = 0;
                next.begin()?;
            }
        }
        *self = next;
        Some(())
    }

    fn begin(&mut self) -> Option<()> {
        let [a, b, c, kind, flags, ..] = self.head;
        self.content = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        // An acknowledgement answers a frame of ours, and we do not send many.
        let acknowledges = matches!(kind, SETTINGS | PING) && flags & ACK != 0;
        if acknowledges || !matches!(kind, PRIORITY | SETTINGS | PING) {
            return Some(());
        }
        if self.since.elapsed() > WINDOW {
            (self.since, self.idle) = (Instant::now(), 0);
        }
        self.idle += 1;
        (self.idle <= MOST).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, content: usize) -> Vec<u8> {
        let [.., a, b, c] = content.to_be_bytes();
        let mut frame = vec![a, b, c, kind, flags, 0, 0, 0, 0];
        frame.extend(vec![0; content]);
        frame
    }

    #[test]
    fn a_flood_of_frames_without_content_ends_the_connection() {
        for (kind, flags, content, passes) in [
            (SETTINGS, 0, 0, false),
            (SETTINGS, 0, 6, false),
            (PING, 0, 8, false),
            (PRIORITY, 0, 5, false),
            (PING, ACK, 8, true),
            (0x0, 0, 100, true),
            (0x8, 0, 4, true),
        ] {
            let flood = frame(kind, flags, content).repeat(20_000);
            for chunk in [1, 7, 4096, flood.len()] {
                let mut frames = Frames::new();
                let fine = flood.chunks(chunk).all(|bytes| frames.advance(bytes).is_some());
                assert_eq!(fine, passes, "{kind} {flags} in chunks of {chunk}");
            }
        }
    }

    #[test]
    fn what_was_refused_is_refused_again() {
        let mut frames = Frames::new();
        let flood = frame(SETTINGS, 0, 0).repeat(2_000);
        assert!(frames.advance(&flood).is_none());
        assert!(frames.advance(&flood).is_none());
        assert!(frames.advance(&frame(SETTINGS, 0, 0)).is_some());
    }
}
