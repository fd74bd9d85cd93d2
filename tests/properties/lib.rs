//! Development only: what must hold for any bytes that reach a decoder (spec V-04). One function a subject; each panics
//! where it does not hold. Tests, the long run and the fuzzer share them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "used by tests only, and a property that does not hold is a panic"
)]

mod canonical;
#[cfg(feature = "cases")]
pub mod cases;
mod digest;
mod events;
mod frame;
mod ids;
mod lines;
mod listing;
mod mirror;
mod names;
mod oracle;
mod place;
mod sealed;
mod sentinel;
mod shape;
mod uris;

// Files of the product that no crate shows to others, as they are. They stand here and no deeper, because part of what
// they have is for their parents alone.
#[path = "../../crates/gateway/catalog/cursor.rs"]
mod native_cursor;
#[path = "../../crates/upstream/lines.rs"]
#[allow(dead_code, reason = "taken whole")]
mod native_lines;
#[path = "../../crates/gateway/catalog/names.rs"]
#[allow(dead_code, reason = "taken whole")]
mod native_names;
#[path = "../../crates/gateway/session/event.rs"]
#[allow(dead_code, reason = "taken whole")]
mod native_place;
#[path = "../../crates/gateway/seal.rs"]
#[allow(dead_code, unreachable_pub, reason = "taken whole")]
mod seal;

/// One subject.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Panics unless all holds for these bytes.
    pub check: fn(&[u8]),
}

/// Every subject.
pub const TARGETS: &[Target] = &[
    Target { name: "frame", check: frame::check },
    Target { name: "forward", check: frame::forward },
    Target { name: "batch", check: frame::batch },
    Target { name: "ids", check: ids::check },
    Target { name: "events", check: events::check },
    Target { name: "lines", check: lines::check },
    Target { name: "sentinel", check: sentinel::check },
    Target { name: "mirror", check: mirror::check },
    Target { name: "sealed", check: sealed::check },
    Target { name: "cursor", check: sealed::cursor },
    Target { name: "place", check: place::check },
    Target { name: "uris", check: uris::check },
    Target { name: "names", check: names::check },
    Target { name: "digest", check: digest::check },
    Target { name: "listing", check: listing::check },
    Target { name: "shape", check: shape::check },
];

/// The subject of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}

/// Looks at one case of a subject.
///
/// # Panics
/// When something does not hold, or there is no such subject.
pub fn look(name: &str, data: &[u8]) {
    (target(name).unwrap().check)(data);
}

/// The first byte as a choice, and the rest; what is empty chooses 0.
fn chosen(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (*first, rest))
}

/// Two parts: the first byte says where the second begins.
fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    let (at, rest) = chosen(data);
    rest.split_at(usize::from(at).min(rest.len()))
}
