//! Single members of compact JSON text, found without reading the rest: the measured work is not ours.

use memchr::memmem;

/// What follows the first `"name":` and spaces after it. The caller knows that no text holds the same.
pub(crate) fn after<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut from = 0;
    loop {
        let rest = text.get(from..)?;
        let at = memmem::find(rest, name.as_bytes())?;
        let before = at.checked_sub(1).and_then(|quote| rest.get(quote));
        let behind = rest.get(at + name.len()..)?;
        if let (Some(b'"'), Some(value)) = (before, behind.strip_prefix(b"\"").and_then(value)) {
            return Some(value);
        }
        from += at + name.len();
    }
}

fn value(behind: &[u8]) -> Option<&[u8]> {
    Some(behind.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())
}

/// The inside of the first string of this name, as it is written. Nothing in a measurement has escapes.
pub(crate) fn string<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let inside = after(text, name)?.strip_prefix(b"\"")?;
    inside.get(..memchr::memchr(b'"', inside)?)
}

/// The first value of this name as it is written: a number, or a string with its quotes.
pub(crate) fn scalar<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = after(text, name)?;
    let length = match value.strip_prefix(b"\"") {
        Some(inside) => memchr::memchr(b'"', inside)? + 2,
        None => value.iter().position(|byte| matches!(byte, b',' | b'}' | b' ' | b'\n' | b'\r'))?,
    };
    value.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_with_and_without_spaces() {
        for (text, id, name) in [
            (r#"{"jsonrpc":"2.0","id":7,"params":{"name":"echo"}}"#, "7", "echo"),
            (r#"{ "name" : "ids", "id" : "a-1" }"#, "\"a-1\"", "ids"),
        ] {
            assert_eq!(scalar(text.as_bytes(), "id"), Some(id.as_bytes()), "{text}");
            assert_eq!(string(text.as_bytes(), "name"), Some(name.as_bytes()), "{text}");
        }
        assert_eq!(scalar(br#"{"method":"id"}"#, "id"), None);
        assert_eq!(string(br#"{"name":"ech"#, "name"), None);
    }
}
