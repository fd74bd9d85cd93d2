//! Tests: strings in and out.

use proptest::prelude::*;

use super::*;
use crate::spelled::{Spelling, cases};

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_plain_run_ends_at_the_first_byte_that_matters(bytes in prop::collection::vec(prop_oneof![9 => any::<u8>(), 1 => Just(b'"')], 0..64)) {
        let expected = bytes.iter().position(|byte| *byte == b'"' || *byte == b'\\' || *byte < 0x20).unwrap_or(bytes.len());
        prop_assert_eq!(plain_length(&bytes), expected);
    }

    #[test]
    fn a_quoted_text_says_the_same(text in any::<String>(), seed: u64) {
        let quoted = quote(&text);
        prop_assert_eq!(&quoted, &serde_json::to_string(&text).unwrap());
        let spelled = Spelling::new(seed).text(&text);
        prop_assert_eq!(string(quoted.as_bytes()).unwrap(), &*text);
        prop_assert_eq!(string(spelled.as_bytes()).unwrap(), &*text);
    }
}

#[test]
fn a_plain_run_of_any_length_ends_at_any_byte() {
    for length in 0..200 {
        for end in [b'"', b'\\', 0, 0x1F] {
            let mut bytes = b"\x7f\x20!#[]\xc3\xa9".repeat(25)[..length].to_vec();
            assert_eq!(plain_length(&bytes), length);
            bytes.push(end);
            bytes.extend([b'a'; 70]);
            assert_eq!(plain_length(&bytes), length, "{end}");
        }
    }
}

#[test]
fn what_is_no_string_says_nothing() {
    for raw in [
        "",
        "\"",
        "7",
        "\"\\",
        "\"\\q\"",
        "\"\\u12\"",
        "\"\\u+123\"",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "\"\\ud800x\"",
        "\"\\\"",
    ] {
        assert_eq!(string(raw.as_bytes()), None, "{raw}");
    }
}

#[test]
fn every_line_break_becomes_a_space() {
    let mut text = *b"\n{\r\n\"a\":1}\n";
    on_one_line(&mut text);
    assert_eq!(&text, b" {  \"a\":1} ");
}
