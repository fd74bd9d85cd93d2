//! Tests: ids keep their type and text.

use std::hash::BuildHasher;

use super::*;

fn id(raw: &str) -> Id {
    Id::from_raw(raw).unwrap()
}

#[test]
fn ids_are_equal_by_type_and_value() {
    let equal = [
        ("7", "7"),
        ("\"7\"", "\"\\u0037\""),
        ("\"\\\"\"", "\"\\u0022\""),
        ("0", "-0"),
        ("\"\\/\"", "\"/\""),
    ];
    let different = [
        ("7", "\"7\""),
        ("7", "-7"),
        ("\"07\"", "\"7\""),
        ("\"a\"", "\"A\""),
        ("\"\\\\u0037\"", "\"7\""),
        ("\"\u{e9}\"", "\"e\u{301}\""),
    ];
    let hasher = std::hash::RandomState::new();
    for (one, other) in equal {
        assert_eq!(id(one), id(other));
        assert_eq!(hasher.hash_one(id(one)), hasher.hash_one(id(other)), "{one}");
    }
    for (one, other) in different {
        assert_ne!(id(one), id(other));
    }
}

#[test]
fn only_the_bare_text_of_an_id_is_one() {
    for raw in [
        "",
        " 7",
        "7 ",
        "07",
        "-",
        "--1",
        "+1",
        "1.0",
        "\"",
        "\"a",
        "\"a\"b\"",
        " \"a\"",
        "\"\\ud800\"",
        "\"\n\"",
        "null",
        "true",
        "{}",
        "\"a\" \"b\"",
    ] {
        assert_eq!(Id::from_raw(raw).unwrap_err(), FrameError::BadId, "{raw}");
    }
}

#[test]
fn a_number_is_known_also_as_a_string() {
    let cases = [
        ("7", Some(7)),
        ("\"7\"", Some(7)),
        ("\"\\u0037\"", Some(7)),
        ("0", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("-1", None),
        ("\"07\"", None),
        ("\"+7\"", None),
        ("\"\"", None),
        ("\"\\\"7\\\"\"", None),
        ("\"7 \"", None),
    ];
    for (raw, number) in cases {
        assert_eq!(id(raw).as_number(), number, "{raw}");
    }
    assert_eq!((Id::number(12).raw(), Id::number(u64::MAX).as_number()), ("12", Some(u64::MAX)));
}
