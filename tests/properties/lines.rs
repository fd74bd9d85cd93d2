//! Lines of a server's output: the same whatever the chunks.

use crate::{chosen, native_lines::Lines};

/// Feeds a text in pieces and compares its lines.
pub(crate) fn check(data: &[u8]) {
    let (choice, text) = chosen(data);
    let cap = if choice & 1 == 0 { 1 << 20 } else { usize::from(choice) };
    let mut lines = Lines::new(cap);
    let mut found = Vec::new();
    let mut rest = text;
    let ended = loop {
        match lines.next() {
            Ok(Some(line)) => found.push(line),
            Ok(None) if rest.is_empty() => break true,
            Ok(None) => {
                let room = lines.room();
                let take = (1 + usize::from(choice >> 1)).min(room.capacity() - room.len()).min(rest.len());
                assert!(take > 0);
                room.extend_from_slice(&rest[..take]);
                rest = &rest[take..];
            }
            Err(_) => break false,
        }
    };
    let mut expected: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let open = expected.pop().unwrap_or_default();
    let long = expected.iter().position(|line| line.len() > cap);
    assert_eq!(ended, long.is_none() && open.len() <= cap);
    assert_eq!(found, expected[..long.unwrap_or(expected.len())]);
}
