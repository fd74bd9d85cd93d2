//! Tests: slices and line breaks.

use super::*;

#[test]
fn pieces_are_shared_until_a_line_break_forces_a_copy() {
    let plain = Bytes::from_static(b"{\"a\":1}");
    let pieces = Pieces::from(plain.clone());
    assert_eq!((pieces.len(), pieces.is_empty()), (7, false));
    assert_eq!(pieces.join().as_ptr(), plain.as_ptr());

    let mut pieces = Pieces::one("[1,\n".into());
    pieces.push("2\r\n]".into());
    assert_eq!(pieces.clone().into_iter().collect::<Vec<_>>(), ["[1, ", "2  ]"]);
    assert_eq!(pieces.join(), "[1, 2  ]");
    assert!(Pieces::default().is_empty() && Pieces::default().join().is_empty());
}
