//! Ids of events: they name the place they were made for, and nothing that was not made by us names one.

use std::sync::LazyLock;

use crate::{
    chosen,
    native_place::{Place, Stamp},
};

static STAMP: LazyLock<Stamp> = LazyLock::new(|| Stamp::new().unwrap());

/// An id that nobody made, and one that was changed.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    assert_eq!(STAMP.place(&text), None);
    let (choice, rest) = chosen(data);
    let number = rest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let place = Place { stream: u32::from(choice) << 24 | 1, event: number };
    let id = STAMP.id(place);
    assert_eq!(STAMP.place(&id), Some(place));
    assert!(!id.contains(['\n', '\r', '\0', ' ']));
    let mut changed = id.clone().into_bytes();
    for pair in rest.chunks_exact(2) {
        let at = usize::from(pair[0]) % changed.len();
        changed[at] ^= pair[1] & 0x7F;
    }
    for changed in [
        String::from_utf8_lossy(&changed).into_owned(),
        format!("{id}{text}"),
        format!("{text}{id}"),
        id.to_uppercase(),
        format!("0{id}"),
        format!("+{id}"),
    ] {
        if changed != id {
            assert_eq!(STAMP.place(&changed), None, "{changed}");
        }
    }
}
