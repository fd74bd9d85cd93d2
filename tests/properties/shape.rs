//! Results between the eras: what neither owns keeps its bytes and its order.

use bytes::Bytes;
use wire::{Budget, Carrier, Edit, Frame, Hints, Id, Revision, shape};

use crate::{
    chosen,
    oracle::{self, Node, on_one_line},
};

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
/// Members of a result that change between the eras.
const OWNED: [&str; 4] = ["resultType", "ttlMs", "cacheScope", "_meta"];
/// Members of a result that older revisions cannot read.
const OUTPUT: [&str; 2] = ["structuredContent", "content"];
const HOP: &str = "io.modelcontextprotocol/";

/// A result, there and back.
pub(crate) fn check(data: &[u8]) {
    let (choice, result) = chosen(data);
    let text = [br#"{"jsonrpc":"2.0","id":1,"result":"#, result, b"}"].concat();
    let Ok(before) = Frame::parse(Bytes::from(text), &Budget::UPSTREAM) else { return };
    let hints = Hints { ttl_ms: 7, private: choice & 1 == 0 };
    let hints = (choice & 2 != 0).then_some(&hints);
    let modern = edited(&before, &shape::to_modern(&before, hints));
    assert_eq!(untouched(&modern, &OWNED), untouched(&before, &OWNED));
    let newest = Revision::parse("2025-11-25").unwrap();
    let legacy = edited(&modern, &shape::to_legacy(&modern, None, newest));
    assert_eq!(untouched(&legacy, &OWNED), untouched(&before, &OWNED));
    for name in OWNED.iter().take(3) {
        assert_eq!(legacy.result_member(name), None);
    }
    let client = Revision::parse(REVISIONS[usize::from(choice >> 2) % 5]).unwrap();
    let carrier =
        [Carrier::CallResult, Carrier::PromptResult, Carrier::ReadResult][usize::from(choice >> 5) % 3];
    older(&before, carrier, client);
}

/// For an older client only the output and the content change, and other revisions' blocks of content stay.
fn older(before: &Frame, carrier: Carrier, client: Revision) {
    let uri = |native: &str| format!("x+{native}");
    let content = shape::content(before, carrier, client, &uri);
    let edits = shape::merge(shape::to_older(before, Some(carrier), client), content);
    assert!(edits.is_sorted_by(|one, other| one.span.end <= other.span.start));
    let after = edited(before, &edits);
    let changed: &[&str] = match carrier {
        Carrier::CallResult => &OUTPUT,
        Carrier::PromptResult => &["messages"],
        Carrier::ReadResult => &[],
    };
    assert_eq!(untouched(&after, changed), untouched(before, changed));
    if carrier == Carrier::CallResult && !client.has_structured_content() {
        assert_eq!(after.result_member("structuredContent"), None);
    }
}

fn edited(answer: &Frame, edits: &[Edit]) -> Frame {
    let sent = answer.answer(&Id::number(1), edits).join();
    match Frame::parse(sent.clone(), &Budget { bytes: usize::MAX, ..Budget::UPSTREAM }) {
        Ok(frame) => frame,
        Err(error) => panic!("{error}: {}", sent.escape_ascii()),
    }
}

/// Members of the result that none of these names owns, and those of `_meta` that are not of a hop: as they are
/// written, in order.
fn untouched(answer: &Frame, owned: &[&str]) -> Vec<(String, String)> {
    let Ok(node) = oracle::read(answer.result().unwrap_or_default().as_bytes()) else { return Vec::new() };
    let kept = |node: &Node<'_>, leaves: &dyn Fn(&str) -> bool| -> Vec<(String, String)> {
        let members = node.members().iter().filter(|(key, _)| !leaves(key));
        members.map(|(key, value)| (key.clone(), on_one_line(value.raw))).collect()
    };
    let mut all = kept(&node, &|key| owned.contains(&key));
    if let Some(meta) = node.member("_meta").filter(|_| owned.contains(&"_meta")) {
        all.extend(kept(meta, &|key| key.starts_with(HOP)));
    }
    all
}
