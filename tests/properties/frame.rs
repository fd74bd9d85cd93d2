//! The decoder of messages: what it takes, what it makes of it, and what leaves again.

use std::borrow::Cow;

use bytes::Bytes;
use wire::{Budget, Change, Frame, FrameError, Id, Shape, envelope, input, readable_id, split};

use crate::{
    chosen,
    ids::is_id,
    oracle::{self, Flaw, Node, on_one_line},
};

/// A frame is read exactly when another reader finds a message there that can be read in one way, and both find the
/// same parts.
pub(crate) fn check(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let frame = Frame::parse(bytes.clone(), &Budget::CLIENT);
    let node = oracle::read(data);
    let told = node.as_ref().ok().filter(|node| node.is_strict()).and_then(message);
    match (&frame, told) {
        (Ok(frame), Some(told)) => same(frame, &told),
        (Ok(frame), None) => panic!("{frame:?} is taken, and {node:?} is no message"),
        // What we refuse beyond the grammar: near misses of reserved words, and what is too much.
        (
            Err(
                FrameError::Ambiguous { .. }
                | FrameError::TooDeep
                | FrameError::TooManyNodes
                | FrameError::TooLarge { .. },
            ),
            _,
        )
        | (Err(_), None) => {}
        (Err(error), Some(_)) => assert_eq!(node.err(), Some(Flaw::Deep), "{error}"),
    }
    let lenient = Frame::parse_leniently(bytes, &Budget::CLIENT);
    match (frame, lenient) {
        (Ok(strict), Ok(lenient)) => {
            assert!(lenient.is_strict());
            assert_eq!((strict.shape(), strict.id()), (lenient.shape(), lenient.id()));
            look(&strict);
        }
        (Ok(_), Err(error)) => panic!("the lenient reading refuses more: {error}"),
        (Err(_), Ok(lenient)) => assert!(!lenient.is_strict() && lenient.shape() == Shape::Result),
        (Err(error), Err(_)) => {
            assert!(error.to_string().len() < 400);
            // It is asked for when the text is JSON.
            let _ = readable_id(data);
        }
    }
}

/// What another reader takes for a message: its shape, id, method and body.
struct Told<'a> {
    shape: Shape,
    id: Option<&'a str>,
    method: &'a str,
    body: Option<&'a Node<'a>>,
}

fn message<'a>(node: &'a Node<'a>) -> Option<Told<'a>> {
    if !node.is_object() || node.member("jsonrpc")?.text() != Some("2.0") {
        return None;
    }
    let id = node.member("id");
    let body = |name: &str| node.member(name);
    let (shape, method, body) = match (body("method"), body("result"), body("error")) {
        (Some(method), None, None) => {
            let shape = if id.is_some() { Shape::Request } else { Shape::Notification };
            let params = node.member("params");
            if params.is_some_and(|params| !params.is_object()) {
                return None;
            }
            (shape, method.text()?, params)
        }
        (None, Some(result), None) => (Shape::Result, "", Some(result)),
        (None, None, Some(error)) => (Shape::Failure, "", Some(error)),
        _ => return None,
    };
    let id = id.map(|id| id.raw);
    let id = match (shape, id) {
        (Shape::Notification, None) | (Shape::Failure, None | Some("null")) => None,
        (_, Some(id)) if is_id(id) => Some(id),
        _ => return None,
    };
    Some(Told { shape, id, method, body })
}

fn same(frame: &Frame, told: &Told<'_>) {
    assert_eq!(frame.shape(), told.shape);
    assert_eq!(frame.id().map(Id::raw), told.id);
    assert_eq!(frame.method_name(), told.method);
    assert_eq!(frame.method().map(wire::Method::name), frame.method().map(|_| told.method));
    let body = match told.shape {
        Shape::Request | Shape::Notification => frame.params(),
        Shape::Result => frame.result(),
        Shape::Failure => frame.error(),
    };
    assert_eq!(body, told.body.map(|body| body.raw));
    for (key, value) in told.body.map(Node::members).unwrap_or_default() {
        let (found, said) = match told.shape {
            Shape::Request | Shape::Notification => (frame.param(key), Some(frame.param_text(key))),
            Shape::Result => (frame.result_member(key), None),
            Shape::Failure => (frame.error_member(key), None),
        };
        assert_eq!(found, Some(value.raw), "{key}");
        if let Some(said) = said {
            assert_eq!(said.as_deref(), value.text(), "{key}");
            assert_eq!(frame.param_digest(key), Some(wire::digest(value.raw)), "{key}");
        }
    }
    assert_eq!(readable_id(frame.bytes()).as_ref(), frame.id());
}

/// Reads what is read of frames elsewhere.
fn look(frame: &Frame) {
    let _ = envelope(frame).map(|found| found.map(|found| found.capabilities.len()));
    let _ = wire::envelope::version(frame);
    if let Some(wanted) = input::wanted(frame) {
        assert!(wanted.questions.iter().all(|wish| wish.params.starts_with('{')));
    }
    let sent = wire::Sent { version: None, method: Some(frame.method_name()), name: None, params: &[] };
    let _ = wire::headers::check_method_and_name(&sent, frame);
}

/// What is forwarded is the same message with exactly the changes that were asked for.
pub(crate) fn forward(data: &[u8]) {
    let (choice, data) = chosen(data);
    let Ok(frame) = Frame::parse(Bytes::copy_from_slice(data), &Budget::CLIENT) else { return };
    let id = Id::number(u64::from(choice) << 40 | 7);
    if matches!(frame.shape(), Shape::Result | Shape::Failure) {
        answered(&frame, &id);
        return;
    }
    let of = |bit: u8, key: &'static str, value: &'static str| {
        let value = (choice & bit << 4 != 0).then_some(Cow::Borrowed(value));
        (choice & bit != 0).then_some(Change { key, value })
    };
    let changes: Vec<Change<'_>> = [
        of(1, "name", "\"native\\n\""),
        of(2, "_meta", r#"{"progressToken":1}"#),
        of(4, "a", "[1,\n2]"),
        of(8, "uri", "\"\""),
    ]
    .into_iter()
    .flatten()
    .collect();
    let is_request = frame.shape() == Shape::Request;
    let sent = frame.forward(is_request.then_some(&id), &changes);
    assert!(!sent.contains(&b'\n') && !sent.contains(&b'\r'));
    let again = Frame::parse(sent.clone(), &Budget { bytes: usize::MAX, ..Budget::CLIENT });
    let again = match again {
        Ok(again) => again,
        // What was added may be one value too many.
        Err(FrameError::TooManyNodes) => return,
        Err(error) => panic!("{error}: {:?}", sent.escape_ascii()),
    };
    assert_eq!((again.shape(), again.method_name()), (frame.shape(), frame.method_name()));
    assert_eq!(again.id(), is_request.then_some(&id));
    let node = oracle::read(&sent).unwrap();
    let outer: Vec<&str> = node.members().iter().map(|(key, _)| key.as_str()).collect();
    assert!(outer.iter().all(|key| ["jsonrpc", "id", "method", "params"].contains(key)), "{outer:?}");
    let before = oracle::read(data).unwrap();
    let before = before.member("params").map(Node::members).unwrap_or_default();
    let mut expected: Vec<(&str, String)> = Vec::new();
    for (key, value) in before {
        match changes.iter().find(|change| change.key == key) {
            Some(Change { value: Some(value), .. }) => expected.push((key, on_one_line(value))),
            Some(Change { value: None, .. }) => {}
            None => expected.push((key, on_one_line(value.raw))),
        }
    }
    for change in &changes {
        if let Some(value) = &change.value
            && !before.iter().any(|(key, _)| key == change.key)
        {
            expected.push((change.key, on_one_line(value)));
        }
    }
    let after = node.member("params").map(Node::members).unwrap_or_default();
    let after: Vec<_> = after.iter().map(|(key, value)| (key.as_str(), value.raw.to_owned())).collect();
    assert_eq!(after, expected);
}

fn answered(frame: &Frame, id: &Id) {
    let sent = frame.answer(id, &[]).join();
    assert!(!sent.contains(&b'\n') && !sent.contains(&b'\r'));
    let again = Frame::parse(sent, &Budget { bytes: usize::MAX, ..Budget::CLIENT }).unwrap();
    assert_eq!((again.shape(), again.id()), (frame.shape(), Some(id)));
    assert_eq!(again.result(), frame.result().map(on_one_line).as_deref());
    assert_eq!(again.error(), frame.error().map(on_one_line).as_deref());
}

/// A batch is split where another reader sees its elements.
pub(crate) fn batch(data: &[u8]) {
    let budget = Budget { nodes: 2_000, depth: 32, ..Budget::CLIENT };
    let parts = split(&Bytes::copy_from_slice(data), &budget);
    let node = oracle::read(data);
    match (parts, &node) {
        (Ok(parts), Ok(node)) => {
            assert!(node.is_list() && node.is_strict());
            let expected: Vec<_> = node.elements().iter().map(|element| element.raw.as_bytes()).collect();
            assert_eq!(parts, expected);
        }
        (Ok(_), Err(flaw)) => panic!("{flaw:?}, and it is split"),
        // A near miss of a reserved word may be met before the end shows that it is no batch.
        (Err(FrameError::Ambiguous { .. }), Ok(node)) => assert!(!node.is_list()),
        (Err(FrameError::TooDeep | FrameError::TooManyNodes), _) | (Err(_), Err(_)) => {}
        (Err(error), Ok(node)) => assert!(!node.is_list() || !node.is_strict(), "{error}"),
    }
}
