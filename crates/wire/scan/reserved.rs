//! The words that must be spelled exactly: a lenient parser upstream could read a near miss as the word
//! itself.

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
pub(super) fn is_near_miss(key: &str, words: &[&str]) -> bool {
    if key.is_ascii() {
        return words.iter().any(|word| word.eq_ignore_ascii_case(key) && *word != key);
    }
    // No word is longer than this, and a folded letter takes at most three bytes.
    if key.len() > 64 {
        return false;
    }
    let folded: String = key.chars().map(folded).collect();
    words.iter().any(|word| word.eq_ignore_ascii_case(&folded))
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
