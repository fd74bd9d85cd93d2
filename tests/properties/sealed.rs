//! What clients carry for us: it opens for whom and what it was made, and nothing that was changed or made up does.

use std::sync::{Arc, LazyLock};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use wire::Kind;

use crate::{
    chosen, halves, native_cursor,
    seal::{Bound, Purpose, Seal, SealKey},
};

static SEAL: LazyLock<Seal> = LazyLock::new(|| {
    let key = |id: u32, current: bool| SealKey { id, key: [id as u8; 32], current };
    Seal::new(vec![key(1, true), key(0, false), key(u32::MAX, false)]).unwrap()
});

const BOUND: Bound<'_> = Bound { tenant: "acme", principal: "ada", endpoint: "/mcp" };

/// A text that nobody sealed, a payload that we seal, and what is done to it on the way.
pub(crate) fn check(data: &[u8]) {
    assert_made_up(&String::from_utf8_lossy(data));
    let (choice, rest) = chosen(data);
    let (payload, damage) = halves(rest);
    let (purpose, other) = match choice & 1 {
        0 => (Purpose::Cursor, Purpose::Input),
        _ => (Purpose::Input, Purpose::Cursor),
    };
    let text = SEAL.seal(purpose, &BOUND, payload).unwrap();
    assert_eq!(SEAL.open(purpose, &BOUND, &text).as_deref(), Some(payload));
    assert_eq!(SEAL.open(other, &BOUND, &text), None);
    let mine = String::from_utf8_lossy(damage);
    for bound in [
        Bound { tenant: &mine, ..BOUND },
        Bound { principal: &mine, ..BOUND },
        Bound { endpoint: &mine, ..BOUND },
    ] {
        let is_same = [(bound.tenant, "acme"), (bound.principal, "ada"), (bound.endpoint, "/mcp")];
        if is_same.iter().any(|(one, other)| one != other) {
            assert_eq!(SEAL.open(purpose, &bound, &text), None, "{bound:?}");
        }
    }
    let mut sealed = URL_SAFE_NO_PAD.decode(&text).unwrap();
    for (place, change) in damage.chunks_exact(2).map(|pair| (usize::from(pair[0]), pair[1])) {
        let length = sealed.len();
        if let Some(byte) = sealed.get_mut(place % length.max(1)) {
            *byte ^= change;
        }
    }
    let changed = URL_SAFE_NO_PAD.encode(&sealed);
    if changed != text {
        assert_eq!(SEAL.open(purpose, &BOUND, &changed), None);
    }
    for end in [text.len() - 1, text.len() / 2] {
        assert_eq!(SEAL.open(purpose, &BOUND, &text[..end]), None);
    }
    for spelled in [format!("{text}="), format!("{text}A"), text.replace(['-', '_'], "+")] {
        if spelled != text {
            assert_eq!(SEAL.open(purpose, &BOUND, &spelled), None);
        }
    }
}

/// The key is not known to whoever makes up cases, so nothing made up opens.
fn assert_made_up(text: &str) {
    let dressed = URL_SAFE_NO_PAD.encode([&[1, 0, 0, 0, 1][..], text.as_bytes()].concat());
    for text in [text, &dressed] {
        for purpose in [Purpose::Cursor, Purpose::Input] {
            assert_eq!(SEAL.open(purpose, &BOUND, text), None);
        }
        for kind in Kind::ALL {
            assert_eq!(native_cursor::open(&SEAL, &BOUND, kind, text), None);
        }
    }
}

/// A place in a list comes back as the same place of the same list, or not at all.
pub(crate) fn cursor(data: &[u8]) {
    let (choice, rest) = chosen(data);
    let upstream: Arc<str> = String::from_utf8_lossy(rest).into();
    let position = usize::from(choice).wrapping_mul(0x0101_0101_0101_0101);
    let kind = Kind::ALL[usize::from(choice) % 4];
    let place = (upstream, position);
    let Some(text) = native_cursor::seal(&SEAL, &BOUND, kind, &place) else { return };
    if text.len() <= 16 * 1024 {
        assert_eq!(native_cursor::open(&SEAL, &BOUND, kind, &text), Some(place));
    }
    for other in Kind::ALL.into_iter().filter(|other| *other != kind) {
        assert_eq!(native_cursor::open(&SEAL, &BOUND, other, &text), None);
    }
    // A payload of ours that is no place.
    let text = SEAL.seal(Purpose::Cursor, &BOUND, rest).unwrap();
    if let Some((upstream, position)) = native_cursor::open(&SEAL, &BOUND, kind, &text) {
        let said = String::from_utf8_lossy(rest);
        assert!(said.starts_with(kind.member()) && said.ends_with(&*upstream), "{position}");
    }
}
