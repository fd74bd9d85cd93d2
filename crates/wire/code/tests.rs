//! Tests: errors and answers as bytes.

use super::*;
use crate::{Budget, Frame, Shape};

#[test]
fn answers_of_our_own_are_frames() {
    let id = Id::from_raw("\"a\\n\"").unwrap();
    let failure =
        failure(Some(&id), INVALID_PARAMS, "no \"such\" tool\n", Some("{\"reason\":\"unknown_name\"}"));
    let expected = r#"{"jsonrpc":"2.0","id":"a\n","error":{"code":-32602,"message":"no \"such\" tool\n","data":{"reason":"unknown_name"}}}"#;
    assert_eq!(failure, expected);
    let read = Frame::parse(failure, &Budget::CLIENT).unwrap();
    assert_eq!((read.shape(), read.id()), (Shape::Failure, Some(&id)));
    assert_eq!(success(&id, "{}"), r#"{"jsonrpc":"2.0","id":"a\n","result":{}}"#);
}

#[test]
fn an_unreadable_request_is_answered_without_an_id() {
    assert_eq!(
        failure(None, PARSE_ERROR, "x", None),
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#
    );
}
