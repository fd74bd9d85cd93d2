//! The words that must be spelled exactly: a lenient parser upstream could read a near miss as the word
//! itself.

use crate::text;

/// Members of the outermost object.
pub(super) const OUTER: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];

/// Members of `params` that say what is asked, by whom, or with what.
pub(super) const PARAMS: &[&str] = &[
    "name",
    "arguments",
    "_meta",
    "uri",
    "ref",
    "cursor",
    "task",
    "argument",
    "context",
    "requestId",
    "progressToken",
    "inputResponses",
    "requestState",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "level",
    "taskId",
];

/// Whether `key` is none of the `words`, but differs from one only in letter case.
pub(super) fn is_near_miss(key: &[u8], words: &[&str]) -> bool {
    for word in words.iter().map(|word| word.as_bytes()) {
        if word.len() == key.len() && begins_alike(word, key) {
            if word == key {
                return false;
            }
            if word.eq_ignore_ascii_case(key) {
                return true;
            }
        }
    }
    // No word is longer than this, and a folded letter takes at most three bytes.
    if words.is_empty() || key.len() > 64 || key.is_ascii() {
        return false;
    }
    let folded: String = text::plain(key).chars().map(folded).collect();
    words.iter().any(|word| word.eq_ignore_ascii_case(&folded))
}

/// Whether the first bytes are equal but for the bit that tells the cases of a letter: nearly all words begin
/// otherwise.
fn begins_alike(one: &[u8], other: &[u8]) -> bool {
    let first = |word: &[u8]| word.first().map(|byte| byte | 0x20);
    first(one) == first(other)
}

/// The letters outside ASCII that a case-insensitive comparison takes for an ASCII letter: the long s and the
/// Kelvin sign in Go's JSON reader, the two Turkish letters in Java's `equalsIgnoreCase`.
fn folded(letter: char) -> char {
    match letter {
        '\u{017F}' => 's',
        '\u{212A}' => 'k',
        '\u{0130}' | '\u{0131}' => 'i',
        other => other,
    }
}
