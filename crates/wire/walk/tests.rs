//! Tests: finding values in text that was checked.

use proptest::prelude::*;

use super::*;
use crate::spelled::{Spelling, Tree, cases, tree};

/// Counts all values by walking, on any text.
fn count(text: &[u8], span: Range<usize>) -> usize {
    let below: Vec<Range<usize>> =
        members(text, span.clone()).map(|(_, value)| value).chain(elements(text, span)).collect();
    1 + below.into_iter().map(|span| count(text, span)).sum::<usize>()
}

fn size(tree: &Tree) -> usize {
    match tree {
        Tree::List(list) => 1 + list.iter().map(size).sum::<usize>(),
        Tree::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        Tree::Null | Tree::Bool(_) | Tree::Number { .. } | Tree::Text(_) => 1,
    }
}

#[test]
fn a_walk_just_ends_on_text_that_is_not_valid() {
    for text in [
        "",
        "{",
        "[",
        "{\"",
        "{\"a",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "[1",
        "[1,",
        "[1 2]",
        "[,1]",
        "{,}",
        "[}",
        "{]",
        "\"",
        "[\"\\",
        "}",
        "]",
    ] {
        let all = count(text.as_bytes(), 0..text.len());
        assert!(all <= 2, "{text}: {all}");
        let mut members = members(text.as_bytes(), 0..text.len());
        members.by_ref().for_each(drop);
        assert!(!members.ends_text(), "{text}");
        assert!(members.next().is_none(), "{text}");
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_walk_passes_every_value(tree in tree(), seed: u64) {
        let text = Spelling::new(seed).tree(&tree);
        prop_assert_eq!(count(text.as_bytes(), 0..text.len()), size(&tree), "{}", text);
    }

    #[test]
    fn a_walk_ends_on_any_bytes(text in prop::collection::vec(prop::sample::select(b"{}[]\":,\\1 a".as_slice()), 0..40)) {
        count(&text, 0..text.len());
        Ends::of(&text);
    }
}
