//! Messages that belong to a running request: progress on its way down, cancellation on its way up.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt as _;
use upstream::{Pool, Seat};
use wire::{Change, Era, Frame, Id, Method, Revision, code, task::RELATED};

use crate::{router::seat_key, session::Session};

/// The longest reason of a cancellation that is passed on, in bytes.
const LONGEST_REASON: usize = 1024;
/// The largest progress notification that is passed on, in bytes. The next one makes it stale anyway.
const LARGEST_PROGRESS: usize = 64 * 1024;

/// Passes a client's `notifications/cancelled` to the request it names. The request sends it on with the
/// id its upstream knows (spec U-07, bug B49).
pub(crate) fn cancel(session: &Session, frame: &Frame) {
    let named = frame.param("requestId").and_then(|raw| Id::from_raw(raw).ok());
    if let Some(id) = named {
        // A reason is a text for people; what is none, or is a book, is left out.
        let reason = frame.param("reason").filter(|raw| raw.starts_with('"') && raw.len() <= LONGEST_REASON);
        session.cancel(&id, reason.map(str::to_owned));
    }
}

/// Passes on that a client's roots changed: to the legacy servers that were told it has some (spec Q-10). Modern ones
/// ask anew each time.
pub(crate) fn roots_changed(pool: &Pool, session: &Session) {
    let seats = [Seat::Principal(seat_key(&session.principal)), Seat::Session(Arc::clone(&session.name))];
    let tenant = session.principal.tenant.name();
    for upstream in seats.iter().flat_map(|seat| pool.of_seat(tenant, seat)) {
        if !upstream.declared().has("roots") {
            continue;
        }
        // One that is not up will ask when it needs them.
        let connection = upstream.connection().now_or_never().and_then(Result::ok);
        if let Some(connection) = connection.filter(|open| open.facts().revision.era() == Era::Legacy) {
            let _untold = connection.tell(code::notification(Method::RootsChanged.name()));
        }
    }
}

/// Progress of one request: the client's token goes back in, and the value only ever rises (spec U-10).
pub(crate) struct Progress {
    token: String,
    last: f64,
    /// Whether this client's revision knows `message` (spec U-11).
    with_message: bool,
}

impl Progress {
    /// For a request with this token, raw JSON.
    pub(crate) fn new(token: &str, revision: Revision) -> Progress {
        let with_message = revision > Revision::R2024_11_05;
        Progress { token: token.to_owned(), last: f64::NEG_INFINITY, with_message }
    }

    /// The notification for the client; none when it goes backwards or stands still.
    pub(crate) fn relay(&mut self, progress: &Frame) -> Option<Bytes> {
        if progress.bytes().len() > LARGEST_PROGRESS {
            return None;
        }
        // Read only to compare: what is sent on are the digits as they came.
        let value: f64 = progress.param("progress")?.parse().ok()?;
        if value <= self.last {
            return None;
        }
        self.last = value;
        let mut changes = vec![Change { key: "progressToken", value: Some(Cow::Borrowed(&self.token)) }];
        let meta = progress.param("_meta");
        if meta.is_some_and(|meta| wire::input::member(meta, RELATED).is_some()) {
            // A server's own id of a task is nobody's business.
            changes.push(Change { key: "_meta", value: None });
        }
        if !self.with_message {
            changes.push(Change { key: "message", value: None });
        }
        Some(progress.forward(None, &changes))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use wire::Budget;

    use super::*;

    fn check(revision: Revision, values: &[&str], expected: &Expect) {
        let mut progress = Progress::new("\"mine\"", revision);
        let lines: Vec<String> = values
            .iter()
            .filter_map(|value| {
                let text = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":77,"progress":{value},"total":100,"message":"m","x":1.0}}}}"#
                );
                progress.relay(&Frame::parse(text.into(), &Budget::UPSTREAM).expect("a frame"))
            })
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn the_clients_token_comes_back_and_values_only_rise() {
        check(
            Revision::R2025_11_25,
            &["1", "50", "40", "50", "50.5"],
            &expect![[r#"
                {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1,"total":100,"message":"m","x":1.0}}
                {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":50,"total":100,"message":"m","x":1.0}}
                {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":50.5,"total":100,"message":"m","x":1.0}}"#]],
        );
    }

    #[test]
    fn the_first_revision_knows_no_message() {
        check(
            Revision::R2024_11_05,
            &["1"],
            &expect![[
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1,"total":100,"x":1.0}}"#
            ]],
        );
    }
}
