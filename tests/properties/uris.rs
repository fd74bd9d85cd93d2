//! URIs: what is rewritten on the way out is undone on the way in, and nothing else is touched.

use std::sync::Arc;

use bytes::Bytes;
use config::Naming;
use serde_json::Value;
use wire::{Budget, Carrier, Frame, Id, uris};

use crate::{chosen, native_names::Prefixes, oracle};

const IDS: [&str; 5] = ["files", "my_files", "my-files", "9lives", "a_9"];

/// A URI on its own, and a result that may hold some.
pub(crate) fn check(data: &[u8]) {
    let (choice, rest) = chosen(data);
    let native = String::from_utf8_lossy(rest);
    let prefixes = Prefixes::of(&IDS.map(Arc::from), Naming::Prefixed);
    let shown: Vec<String> = IDS.iter().map(|id| prefixes.exposed(id, &native)).collect();
    for (id, shown) in IDS.iter().zip(&shown) {
        assert_eq!(prefixes.native(shown), Some((Arc::from(*id), &*native)));
        assert!(shown.ends_with(&*native));
        assert_eq!(shown.find('+').map(|at| &shown[at + 1..]), Some(&*native));
    }
    let bare = Prefixes::of(&[Arc::from("files")], Naming::Bare);
    assert_eq!(bare.native(&bare.exposed("files", &native)), Some((Arc::from("files"), &*native)));
    if let Some((id, undone)) = prefixes.native(&native) {
        assert_eq!(prefixes.exposed(&id, undone), native);
    }
    let carrier = [Carrier::CallResult, Carrier::PromptResult, Carrier::ReadResult][usize::from(choice) % 3];
    for wrapped in [format!("{native}"), format!("{{\"{}\":{native}}}", member(carrier))] {
        result(&wrapped, carrier, &prefixes);
    }
}

fn member(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::CallResult => "content",
        Carrier::PromptResult => "messages",
        Carrier::ReadResult => "contents",
    }
}

fn result(result: &str, carrier: Carrier, prefixes: &Prefixes) {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    let Ok(before) = Frame::parse(text.into(), &Budget::UPSTREAM) else { return };
    let shown = edited(&before, carrier, &|uri| prefixes.exposed("my_files", uri));
    let Some(mut expected) = before.result().and_then(oracle::tree) else { return };
    let mut count = 0;
    places(&mut expected, carrier, &mut |uri| {
        *uri = prefixes.exposed("my_files", uri);
        count += 1;
    });
    assert_eq!(shown.result().and_then(oracle::tree), Some(expected));
    let undone = edited(&shown, carrier, &|uri| match prefixes.native(uri) {
        Some((_, native)) => native.to_owned(),
        None => uri.to_owned(),
    });
    assert_eq!(undone.result().and_then(oracle::tree), before.result().and_then(oracle::tree));
    if count == 0 {
        assert_eq!(shown.result(), before.result().map(oracle::on_one_line).as_deref());
    }
}

fn edited(answer: &Frame, carrier: Carrier, rewrite: &dyn Fn(&str) -> String) -> Frame {
    let edits = uris::edits(answer, carrier, rewrite);
    let bytes: Bytes = answer.answer(&Id::number(1), &edits).join();
    Frame::parse(bytes, &Budget { bytes: usize::MAX, ..Budget::UPSTREAM }).unwrap()
}

/// Every URI that MCP has in such a result.
fn places(result: &mut Value, carrier: Carrier, change: &mut dyn FnMut(&mut String)) {
    let Some(Value::Array(list)) = result.get_mut(member(carrier)) else { return };
    for element in list {
        match carrier {
            Carrier::CallResult => block(element, change),
            Carrier::ReadResult => uri(element, change),
            Carrier::PromptResult => {
                match element.as_object_mut().and_then(|element| element.get_mut("content")) {
                    Some(Value::Array(blocks)) => blocks.iter_mut().for_each(|one| block(one, change)),
                    Some(one) => block(one, change),
                    None => {}
                }
            }
        }
    }
}

fn block(block: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match block.get("type").and_then(Value::as_str) {
        Some("resource_link") => uri(block, change),
        Some("resource") => {
            if let Some(resource) = block.get_mut("resource") {
                uri(resource, change);
            }
        }
        _ => {}
    }
}

fn uri(holder: &mut Value, change: &mut dyn FnMut(&mut String)) {
    if let Some(Value::String(uri)) = holder.as_object_mut().and_then(|holder| holder.get_mut("uri")) {
        change(uri);
    }
}
