//! Event streams: the same events whatever the chunks, and those that the standard's own words give.

use bytes::Bytes;
use wire::{
    Pieces,
    sse::{Decoder, Event, event},
};

use crate::chosen;

/// The longest event id that is kept.
const ID_BYTES: usize = 1024;

/// Reads a stream in one piece, in pieces, and as the standard says.
pub(crate) fn check(data: &[u8]) {
    let (choice, stream) = chosen(data);
    let limit = if choice & 1 == 0 { 1 << 20 } else { 8 + usize::from(choice) };
    let chunk = 1 + usize::from(choice >> 3);
    let whole = Decoder::new(limit).push(stream);
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    let pieces =
        stream.chunks(chunk).try_for_each(|piece| decoder.push(piece).map(|more| events.extend(more)));
    assert_eq!(whole.is_ok(), pieces.is_ok());
    if let Ok(whole) = whole {
        assert_eq!(whole, events);
        let (expected, retry) = by_the_standard(stream);
        assert_eq!(whole, expected);
        assert_eq!(decoder.retry(), retry);
        if let Some(last) = whole.last() {
            assert!(last.data.len() <= limit);
        }
    } else {
        assert!(stream.len() > limit);
    }
    written(stream);
}

/// What is written as an event is read as this event, whatever it holds but line breaks.
fn written(text: &[u8]) {
    let text: Bytes = text.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let id = String::from_utf8_lossy(&text).into_owned();
    let sent = event(&Pieces::one(text.clone()), Some(&id)).join();
    let events = Decoder::new(1 << 22).push(&sent).unwrap();
    let id = id.replace('\0', "");
    let id = (!id.is_empty() && id.len() <= ID_BYTES).then(|| id.into());
    assert_eq!(events, [Event { name: "message".into(), data: text, id }]);
}

/// The algorithm of the HTML standard, step by step, on the whole stream.
fn by_the_standard(stream: &[u8]) -> (Vec<Event>, Option<u64>) {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let (mut events, mut retry) = (Vec::new(), None);
    let (mut data, mut name, mut id) = (None::<Vec<u8>>, String::new(), String::new());
    for line in lines(stream) {
        if line.is_empty() {
            if let Some(data) = data.take() {
                let name = if name.is_empty() { "message" } else { &name };
                let id = (!id.is_empty()).then(|| id.as_str().into());
                events.push(Event { name: name.into(), data: data.into(), id });
            }
            name.clear();
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let field = &line[..colon.unwrap_or(line.len())];
        let value = colon.map_or(&[] as &[u8], |colon| &line[colon + 1..]);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => match &mut data {
                Some(data) => data.extend([b"\n", value].concat()),
                None => data = Some(value.to_vec()),
            },
            b"event" => name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) && value.len() <= ID_BYTES => {
                id = String::from_utf8_lossy(value).into_owned();
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                retry = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok()).or(retry);
            }
            _ => {}
        }
    }
    (events, retry)
}

/// Lines that have ended, by any of the three ends.
fn lines(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        lines.push(&rest[..at]);
        let end = if rest[at..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[at + end..];
    }
    lines
}
