//! Looks for a word in bytes: as it is, in another case, and as it looks when somebody encodes it.

use std::fmt::Write as _;

/// Every place at which one of these words stands, with what surrounds it.
pub(super) fn found(bytes: &[u8], words: &[String]) -> Vec<String> {
    let lower = bytes.to_ascii_lowercase();
    let plain = words.iter().map(|word| word.to_ascii_lowercase().into_bytes());
    let mut places = Vec::new();
    for needle in plain {
        places.extend(place(&lower, bytes, &needle));
        places.extend(place(&lower, bytes, hex(&needle).as_bytes()));
    }
    for word in words {
        // Of a text in the middle of others, what is left in base64 depends on how it is aligned.
        places.extend(
            (0..3).filter_map(|offset| place(bytes, bytes, base64(word.as_bytes(), offset).as_bytes())),
        );
    }
    places
}

fn place(within: &[u8], shown: &[u8], needle: &[u8]) -> Option<String> {
    let at = within.windows(needle.len()).position(|window| window == needle)?;
    let around = &shown[at.saturating_sub(120)..(at + needle.len() + 80).min(shown.len())];
    Some(String::from_utf8_lossy(around).into_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The part of a text's base64 that does not depend on its neighbours, after so many bytes of another.
fn base64(bytes: &[u8], offset: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = |at: usize| (bytes[at / 8] >> (7 - at % 8)) & 1;
    // The first whole sextet begins where the neighbour's last one ends.
    let first = [0, 4, 2][offset];
    let sextets = (bytes.len() * 8 - first) / 6;
    let sextet = |n: usize| (0..6).fold(0, |value, bit| value << 1 | usize::from(bits(first + n * 6 + bit)));
    (0..sextets).map(|n| char::from(ALPHABET[sextet(n)])).collect()
}

#[test]
fn a_word_is_found_however_it_is_written() {
    let words = ["amber9f3".to_owned()];
    for text in [
        "x amber9f3 y",
        "x%20AMBER9F3",
        // `amber9f3`, `xamber9f3y` and `xyamber9f3z` in base64, and the first in hexadecimal.
        "YW1iZXI5ZjM=",
        "eGFtYmVyOWYzeQ==",
        "eHlhbWJlcjlmM3o=",
        "616d626572396633",
    ] {
        assert!(!found(text.as_bytes(), &words).is_empty(), "{text}");
    }
    for text in ["", "amber", "amber 9f3", "YW1iZXI="] {
        assert_eq!(found(text.as_bytes(), &words), [""; 0], "{text}");
    }
}
