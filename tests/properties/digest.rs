//! Digests: equal exactly when the meaning is.

use wire::digest;

use crate::{
    canonical::{UNCOMPARED, respelled, written},
    chosen,
    oracle::{self, Flaw, Node},
};

/// A text, another spelling of it, and one that differs in a byte.
pub(crate) fn check(data: &[u8]) {
    let (choice, text) = chosen(data);
    let Ok(text) = str::from_utf8(text) else { return };
    match oracle::read(text.as_bytes()) {
        Err(Flaw::Deep) => {}
        Ok(node) if node.is_strict() => {
            compared(text, &node);
            let mut other = text.as_bytes().to_vec();
            let length = other.len();
            if let Some(byte) = other.get_mut(usize::from(choice) % length.max(1)) {
                *byte ^= 1 + (choice >> 5);
            }
            if let Ok(other) = str::from_utf8(&other) {
                against(text, &node, other);
            }
        }
        // What is no JSON, or can be read in two ways, counts by its bytes.
        Ok(_) | Err(Flaw::NotJson) => {
            assert_eq!(digest(text), digest(text));
            assert_ne!(digest(text), digest(&format!("{text} ")));
        }
    }
}

fn compared(text: &str, node: &Node<'_>) {
    let meaning = written(node);
    if meaning.contains(UNCOMPARED) {
        return;
    }
    let other = respelled(node);
    assert_eq!(digest(text), digest(&other), "{text} {other}");
    assert_eq!(digest(text), digest(&format!("\r{text}\n ")));
    assert_ne!(digest(text), digest(&format!("[{text}]")));
}

fn against(text: &str, node: &Node<'_>, other: &str) {
    let Ok(second) = oracle::read(other.as_bytes()) else {
        return;
    };
    let (one, two) = (written(node), written(&second));
    if one.contains(UNCOMPARED) || two.contains(UNCOMPARED) {
        return;
    }
    let is_equal = second.is_strict() && one == two;
    assert_eq!(digest(text) == digest(other), is_equal, "{text} {other}");
}
