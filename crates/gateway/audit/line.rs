//! How an audit line is spelled: one JSON object, readable in any terminal, whatever clients and upstreams send.
//!
//! The schema is versioned (`v`). A member may be added within a version; none changes its meaning.

use std::{fmt, io::Write as _};

use time::OffsetDateTime;
use wire::Digest;

/// The version of the schema.
const VERSION: &str = "1";

/// The longest string, in characters.
pub(super) const TEXT_MAX: usize = 512;

/// Ends a string that was cut.
const CUT: &str = "…[cut]";

/// Puts a line together: its head, then the members that were prepared as its body.
pub(super) fn spell(line: &mut Vec<u8>, entry: u64, word: &str, body: &[u8]) {
    let mut digits = [0; 16];
    // INVARIANT: two digits a byte.
    let _ = hex::encode_to_slice(entry.to_be_bytes(), &mut digits);
    for part in
        [b"{\"v\":", VERSION.as_bytes(), b",\"entry\":\"", &digits, b"\",\"line\":\"", word.as_bytes(), b"\""]
    {
        line.extend_from_slice(part);
    }
    line.extend_from_slice(body);
}

/// The members of a line behind its head. Keys are ours and need no escapes.
pub(super) struct Body(Vec<u8>);

impl Default for Body {
    fn default() -> Body {
        // Most lines fit.
        Body(Vec::with_capacity(640))
    }
}

impl Body {
    /// A string of ours or of a stranger: cut, and with nothing in it that a terminal would obey or hide.
    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        self.quote(value, TEXT_MAX);
    }

    /// A word of ours, plain ASCII without quotes.
    pub(super) fn word(&mut self, key: &str, word: &str) {
        self.key(key);
        self.0.push(b'"');
        self.0.extend_from_slice(word.as_bytes());
        self.0.push(b'"');
    }

    /// The same when it may be unknown; the member is there all the same.
    pub(super) fn word_or_null(&mut self, key: &str, word: Option<&str>) {
        match word {
            Some(word) => self.word(key, word),
            None => {
                self.key(key);
                self.0.extend_from_slice(b"null");
            }
        }
    }

    /// A digest, as it prints.
    pub(super) fn digest(&mut self, key: &str, digest: &Digest) {
        self.key(key);
        self.0.extend_from_slice(b"\"sha256:");
        let mut digits = [0; 64];
        // INVARIANT: two digits a byte.
        let _ = hex::encode_to_slice(digest.0, &mut digits);
        self.0.extend_from_slice(&digits);
        self.0.push(b'"');
    }

    /// A whole number.
    pub(super) fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A time.
    pub(super) fn time(&mut self, key: &str, time: OffsetDateTime) {
        self.key(key);
        self.0.push(b'"');
        self.0.extend_from_slice(&Timestamp(time).digits());
        self.0.push(b'"');
    }

    /// Members that were prepared before.
    pub(super) fn members(&mut self, members: &[u8]) {
        self.0.extend_from_slice(members);
    }

    /// The members, to be put into other bodies.
    pub(super) fn so_far(self) -> Vec<u8> {
        self.0
    }

    /// Something of ours that prints as plain ASCII.
    pub(super) fn plain(&mut self, key: &str, value: impl fmt::Display) {
        self.key(key);
        write(&mut self.0, format_args!("\"{value}\""));
    }

    /// A number, or whatever is JSON already.
    pub(super) fn raw(&mut self, key: &str, value: impl fmt::Display) {
        self.key(key);
        write(&mut self.0, format_args!("{value}"));
    }

    /// A string that may be unknown; the member is there all the same.
    pub(super) fn text_or_null(&mut self, key: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(key, value),
            None => self.word_or_null(key, None),
        }
    }

    /// A string that may be absent; then so is the member.
    pub(super) fn text_if(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    /// The body, to be put behind a head.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }

    fn key(&mut self, key: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn quote(&mut self, value: &str, most: usize) {
        self.0.push(b'"');
        let end = if value.len() <= most { None } else { value.char_indices().nth(most).map(|(at, _)| at) };
        let (shown, _) = value.split_at_checked(end.unwrap_or(value.len())).unwrap_or((value, ""));
        if shown.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
            self.0.extend_from_slice(shown.as_bytes());
        } else {
            shown.chars().for_each(|character| self.character(character));
        }
        if end.is_some() {
            self.0.extend_from_slice(CUT.as_bytes());
        }
        self.0.push(b'"');
    }

    fn character(&mut self, character: char) {
        match character {
            '"' => self.0.extend_from_slice(b"\\\""),
            '\\' => self.0.extend_from_slice(b"\\\\"),
            ' '..='~' => self.0.push(character as u8),
            hidden if is_hidden(hidden) => {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    write(&mut self.0, format_args!("\\u{unit:04x}"));
                }
            }
            shown => self.0.extend_from_slice(shown.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// The text, or its first `most` characters and a mark.
pub(super) fn cut(text: &str, most: usize) -> Box<str> {
    match text.char_indices().nth(most).and_then(|(end, _)| text.split_at_checked(end)) {
        Some((shown, _)) => format!("{shown}{CUT}").into(),
        None => text.into(),
    }
}

/// Controls, line separators, and what shows as nothing or turns the text around it (Unicode `Cc`, `Cf`, `Zl`, `Zp` and
/// the default ignorable characters): a record must not hide its content or move a terminal's cursor.
fn is_hidden(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}'
        | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}'
        | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// A time as RFC 3339 in UTC, with milliseconds.
pub(crate) struct Timestamp(pub(crate) OffsetDateTime);

impl Timestamp {
    /// `2026-11-30T14:11:15.007Z`.
    pub(crate) fn text(&self) -> String {
        self.digits().into_iter().map(char::from).collect()
    }

    /// The same in ASCII. Spelled by hand: it stands in every line.
    fn digits(&self) -> [u8; 24] {
        let (date, time) = (self.0.date(), self.0.time());
        let (hour, minute, second, milli) = time.as_hms_milli();
        let year = u16::try_from(date.year()).unwrap_or_default();
        let digit = |number: u16, place: u16| b'0' + (number / place % 10) as u8;
        let two = |number: u8| [digit(number.into(), 10), digit(number.into(), 1)];
        let ([mo, mo2], [d, d2]) = (two(date.month().into()), two(date.day()));
        let ([h, h2], [mi, mi2], [s, s2]) = (two(hour), two(minute), two(second));
        let [y, y2, y3, y4] = [1000, 100, 10, 1].map(|place| digit(year, place));
        let [f, f2, f3] = [100, 10, 1].map(|place| digit(milli, place));
        [
            y, y2, y3, y4, b'-', mo, mo2, b'-', d, d2, b'T', h, h2, b':', mi, mi2, b':', s, s2, b'.', f, f2,
            f3, b'Z',
        ]
    }

    /// The same without punctuation, for the names of files.
    pub(super) fn compact(&self) -> String {
        self.text().replace(['-', ':', '.'], "")
    }
}

fn write(bytes: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    // Writing to a `Vec` cannot fail.
    let _ = bytes.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use regex::Regex;
    use time::OffsetDateTime;

    use super::{Body, CUT, TEXT_MAX, Timestamp, cut, spell};

    fn line_with(value: &str) -> String {
        let mut body = Body::default();
        body.text("x", value);
        let mut line = Vec::new();
        spell(&mut line, 0xbeef, "final", &body.end());
        String::from_utf8(line).unwrap()
    }

    fn read_back(value: &str) -> String {
        let line: serde_json::Value = serde_json::from_str(&line_with(value)).unwrap();
        line["x"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_line_is_one_json_object_and_one_newline() {
        assert_eq!(
            line_with("a"),
            "{\"v\":1,\"entry\":\"000000000000beef\",\"line\":\"final\",\"x\":\"a\"}\n"
        );
    }

    #[test]
    fn every_character_comes_back_and_no_hidden_one_is_written_raw() {
        let hidden = Regex::new(
            r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{34f}\u{115f}\u{3164}\u{fe00}-\u{fe0f}\u{e0100}-\u{e01ef}]",
        )
        .unwrap();
        let all: Vec<char> = ('\0'..=char::MAX).collect();
        for some in all.chunks(TEXT_MAX) {
            let text: String = some.iter().collect();
            assert_eq!(read_back(&text), text);
            let raw = line_with(&text);
            assert_eq!(hidden.find(raw.trim_end_matches('\n')), None, "{raw}");
        }
    }

    #[test]
    fn what_turns_text_around_is_visible_as_an_escape() {
        assert!(line_with("a\u{202e}b").contains(r#""a\u202eb""#));
        assert!(line_with("a\u{e0041}").contains(r#""a\udb40\udc41""#));
        assert!(line_with("\u{1b}[2J\"\\\n").contains(r#""\u001b[2J\"\\\u000a""#));
        assert!(line_with("Grüße, 世界 🦀").contains("Grüße, 世界 🦀"));
    }

    #[test]
    fn a_long_string_is_cut_at_a_character_and_marked() {
        for character in ["a", "ß", "🦀", "\u{202e}"] {
            assert_eq!(read_back(&character.repeat(TEXT_MAX)), character.repeat(TEXT_MAX));
            assert_eq!(read_back(&character.repeat(TEXT_MAX + 1)), character.repeat(TEXT_MAX) + CUT);
            assert_eq!(*cut(&character.repeat(3), 3), character.repeat(3));
            assert_eq!(*cut(&character.repeat(4), 3), character.repeat(3) + CUT);
        }
    }

    #[test]
    fn times_are_utc_with_milliseconds() {
        let time = OffsetDateTime::from_unix_timestamp_nanos(1_796_047_875_007_999_999).unwrap();
        assert_eq!(Timestamp(time).text(), "2026-11-30T14:11:15.007Z");
        assert_eq!(Timestamp(time).compact(), "20261130T141115007Z");
    }
}
