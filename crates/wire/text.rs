//! JSON strings as bytes: where they end, what they say, how they are written.

use std::borrow::Cow;

/// How many bytes from the start a string scanner need not look at: up to a quote, a backslash or a control
/// character.
#[inline(always)]
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    early_end(bytes).unwrap_or_else(|| later_end(bytes))
}

/// Where a plain run ends, if it ends in the first eight bytes of more.
#[inline(always)]
pub(crate) fn early_end(bytes: &[u8]) -> Option<usize> {
    let special = special(u64::from_le_bytes(*bytes.first_chunk()?));
    (special != 0).then(|| first_marked(special))
}

/// Most strings end in their first eight bytes, which [`early_end`] has looked at. The others are passed word by
/// word, and long ones in larger steps.
#[inline(never)]
fn later_end(bytes: &[u8]) -> usize {
    let mut at = if bytes.len() < 8 { 0 } else { 8 };
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let special = special(u64::from_le_bytes(*word));
        if special != 0 {
            return at + first_marked(special);
        }
        at += word.len();
        if at == LONG {
            at += blocks_length(bytes.get(at..).unwrap_or_default());
        }
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| ends_run(*byte)).unwrap_or(rest.len())
}

/// So many plain bytes make a string a long one.
const LONG: usize = 32;

/// How many whole blocks hold nothing that ends a run. What is compared without a branch, the compiler compares
/// sixteen bytes at a time.
fn blocks_length(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<32>();
    let is_plain = |block: &&[u8; 32]| !block.iter().fold(false, |found, byte| found | ends_run(*byte));
    blocks.iter().take_while(is_plain).count() * 32
}

fn ends_run(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

fn first_marked(special: u64) -> usize {
    special.trailing_zeros() as usize / 8
}

/// Marks the bytes that end a plain run. Exact for the lowest marked byte, which is the only one used.
fn special(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quote = word ^ (ONES * 0x22);
    let backslash = word ^ (ONES * 0x5C);
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit);
    // All three have the high bits of `word`: a byte that has one is none of them.
    (below(word, 0x20) | below(quote, 1) | below(backslash, 1)) & !word & HIGH
}

/// Bytes that were already proved to be text.
pub(crate) fn plain(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// What the inside of a JSON string says; `None` when it is not well formed.
pub(crate) fn decoded(inside: &[u8]) -> Option<Cow<'_, str>> {
    let Some(first) = memchr::memchr(b'\\', inside) else {
        return std::str::from_utf8(inside).ok().map(Cow::Borrowed);
    };
    let mut out = String::with_capacity(inside.len());
    let mut at = first;
    out.push_str(std::str::from_utf8(inside.get(..first)?).ok()?);
    while let Some(rest) = inside.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.first() == Some(&b'\\') {
            let (letter, length) = escaped_char(rest)?;
            out.push(letter);
            at += length;
        } else {
            let length = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
            out.push_str(std::str::from_utf8(rest.get(..length)?).ok()?);
            at += length;
        }
    }
    Some(out.into())
}

/// What a JSON string says, quotes included in `raw`; `None` when it is no string.
pub(crate) fn string(raw: &[u8]) -> Option<Cow<'_, str>> {
    decoded(raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?)
}

/// The character an escape stands for and how many bytes it takes.
pub(crate) fn escaped_char(bytes: &[u8]) -> Option<(char, usize)> {
    let letter = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{C}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(bytes),
        _ => return None,
    };
    Some((letter, 2))
}

fn unicode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let first = hexadecimal(bytes.get(2..6)?)?;
    if !(0xD800..0xE000).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    let second = hexadecimal(bytes.get(6..12)?.strip_prefix(b"\\u")?)?;
    if first >= 0xDC00 || !(0xDC00..0xE000).contains(&second) {
        return None;
    }
    Some((char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00))?, 12))
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

/// `text` as a JSON string.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_quoted(&mut out, text);
    out
}

/// Appends `text` as a JSON string.
pub(crate) fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some((plain, tail)) = rest.split_at_checked(plain_length(rest.as_bytes())) {
        out.push_str(plain);
        let mut letters = tail.chars();
        let Some(letter) = letters.next() else { break };
        write_escaped(out, letter);
        rest = letters.as_str();
    }
    out.push('"');
}

fn write_escaped(out: &mut String, letter: char) {
    match letter {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{C}' => out.push_str("\\f"),
        other => {
            let code = u32::from(other);
            out.push_str("\\u00");
            out.extend([code >> 4, code & 15].into_iter().filter_map(|digit| char::from_digit(digit, 16)));
        }
    }
}

/// Makes one line of JSON text: in valid JSON a raw line break can only be white space (spec P-01, H-09).
pub(crate) fn on_one_line(text: &mut [u8]) {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        let (_, tail) = rest.split_at_mut(at);
        let Some((found, tail)) = tail.split_first_mut() else { return };
        *found = b' ';
        rest = tail;
    }
}

/// The start of untrusted text, for an error.
pub(crate) fn excerpt(text: &str) -> Box<str> {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests;
