//! Pages of lists: every item that another reader would show is there as its server wrote it, and no other is.

use bytes::Bytes;
use wire::{Budget, Frame, Kind, ListingError, read_page, render};

use crate::{
    chosen,
    oracle::{self, Node},
};

/// The items of a page, whatever they are.
pub(crate) fn check(data: &[u8]) {
    let (choice, items) = chosen(data);
    let kind = Kind::ALL[usize::from(choice) % 4];
    let mut text =
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"nextCursor":"n","{}":"#, kind.member()).into_bytes();
    text.extend_from_slice(items);
    text.extend_from_slice(b"}}");
    let Ok(answer) = Frame::parse_leniently(Bytes::from(text.clone()), &Budget::UPSTREAM) else { return };
    let page = read_page(&answer, kind);
    let list = answer.result_member(kind.member()).unwrap_or_default();
    if list == "null" || !list.starts_with('[') {
        assert_eq!(page.map(|page| page.items.len()).err(), (list != "null").then_some(ListingError::NoList));
        return;
    }
    let page = page.unwrap();
    assert_eq!(page.next.as_deref(), Some("n"));
    let elements: Vec<&serde_json::value::RawValue> = serde_json::from_str(list).unwrap();
    let mut good = page.items.iter();
    let mut broken = page.broken.iter().peekable();
    for (position, element) in elements.iter().enumerate() {
        if broken.next_if(|broken| broken.position == position).is_some() {
            assert!(named(element.get(), kind).is_none(), "{element} is left out");
            continue;
        }
        let item = good.next().unwrap();
        assert_eq!(item.raw(), element.get());
        if let Some(key) = named(element.get(), kind) {
            assert_eq!(item.key(), key);
        }
        let shown = item.exposed("shown \"name\"", &|uri| uri.to_owned());
        renamed(item.raw(), &shown, kind);
    }
    assert!(good.next().is_none() && broken.next().is_none());
    let items: Vec<Bytes> =
        page.items.iter().map(|item| Bytes::copy_from_slice(item.raw().as_bytes())).collect();
    let rendered = render(kind, &items, page.next.as_deref());
    let rendered = oracle::tree(str::from_utf8(&rendered).unwrap());
    // Numbers that serde_json cannot hold are no concern of this.
    if let Some(rendered) = rendered {
        assert_eq!(rendered[kind.member()].as_array().map(Vec::len), Some(items.len()));
        assert_eq!(rendered["nextCursor"], "n");
    }
}

/// By what name another reader would show an item; none for one that it would not show.
fn named(raw: &str, kind: Kind) -> Option<String> {
    let node = oracle::read(raw.as_bytes()).ok().filter(Node::is_strict)?;
    let name = node.member(kind.key())?.text()?;
    if kind == Kind::Tools {
        let schema = node.member("inputSchema").filter(|schema| schema.is_object())?;
        let is_object = schema.member("type").is_none_or(|of| of.text() == Some("object"));
        let has_members = schema.member("properties").is_none_or(Node::is_object);
        if !is_object || !has_members {
            return None;
        }
    }
    Some(name.to_owned())
}

/// All but the name is as it was.
fn renamed(before: &str, after: &[u8], kind: Kind) {
    let (Ok(before), Ok(after)) = (oracle::read(before.as_bytes()), oracle::read(after)) else { return };
    assert_eq!(before.members().len(), after.members().len());
    for ((old, was), (new, is)) in before.members().iter().zip(after.members()) {
        assert_eq!(old, new);
        if new == kind.key() {
            assert_eq!(is.text(), Some("shown \"name\""));
        } else {
            assert_eq!(is.raw, oracle::on_one_line(was.raw));
        }
    }
}
