//! Our own cursors: sealed, so that nobody can read, change or pass them on (spec U-02).
//!
//! A cursor holds the place of the last item it was given with. Upstream cursors never leave: lists
//! are read whole from upstreams before they are served.

use std::sync::Arc;

use wire::Kind;

use crate::seal::{Bound, Purpose, Seal};

type Place = (Arc<str>, usize);

/// Seals the place after which the next page begins.
pub(crate) fn seal(
    seal: &Seal,
    bound: &Bound<'_>,
    kind: Kind,
    (upstream, position): &Place,
) -> Option<String> {
    let payload = format!("{} {position} {upstream}", kind.member());
    seal.seal(Purpose::Cursor, bound, payload.as_bytes()).ok()
}

/// The place a cursor names; none when it is not ours, not this caller's or of another list.
pub(crate) fn open(seal: &Seal, bound: &Bound<'_>, kind: Kind, text: &str) -> Option<Place> {
    let payload = seal.open(Purpose::Cursor, bound, text)?;
    let payload = std::str::from_utf8(&payload).ok()?;
    let mut parts = payload.splitn(3, ' ');
    let (member, position, upstream) = (parts.next()?, parts.next()?, parts.next()?);
    if member != kind.member() {
        return None;
    }
    Some((upstream.into(), position.parse().ok()?))
}
