//! Header values that may be marked as base64: one spelling a value, and no other is taken.

use wire::headers::{decode, encode};

/// A value that came, and the same bytes as a value to send.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let sent = encode(&text);
    assert!(!sent.is_empty() && sent.bytes().all(|byte| matches!(byte, b' '..=b'~')));
    assert_eq!(sent.trim(), &*sent);
    assert_eq!(decode(&sent).as_deref(), Ok(&*text));
    assert_eq!(decode(&format!(" \t{sent}\t ")).as_deref(), Ok(&*text));

    let came = text.trim_matches([' ', '\t']);
    let inside = came.strip_prefix("=?base64?").filter(|rest| rest.ends_with("?="));
    match (decode(&text), inside) {
        (Ok(said), Some(_)) => assert_eq!(came, format!("=?base64?{}?=", base64(said.as_bytes()))),
        (Ok(said), None) => assert_eq!(said, came),
        (Err(_), Some(_)) => {}
        (Err(_), None) => {
            let is_visible = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
            // Both marks at once, sharing a character, are neither.
            assert!(!came.bytes().all(is_visible) || came == "=?base64?=");
        }
    }
    if let Ok(inside) = str::from_utf8(data) {
        forged(inside);
    }
}

/// Text between the marks is taken only when it is the one spelling of what it says.
fn forged(inside: &str) {
    let marked = format!("=?base64?{inside}?=");
    if let Ok(said) = decode(&marked) {
        assert_eq!(inside, base64(said.as_bytes()));
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]);
            out.push(if at <= three.len() { letter } else { '=' });
        }
    }
    out
}
