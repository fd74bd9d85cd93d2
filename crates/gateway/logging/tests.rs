//! Tests: who hears what of the log messages of servers.

use expect_test::expect;
use upstream::{Address, Patience};

use super::*;

/// An upstream that we have a credential for.
fn alpha() -> Spec {
    let mut address = Address::new("https://alpha.test/mcp?key=query-s3cret".parse().unwrap());
    address.credential =
        upstream::Credential::headers(vec![("authorization".to_owned(), "Bearer head-s3cret".to_owned())]);
    Spec::http("acme".into(), "alpha".into(), address, Patience::default(), 1 << 20)
}

fn message(params: &str) -> Frame {
    let text = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#);
    Frame::parse(text.into(), &Budget::UPSTREAM).unwrap()
}

#[test]
fn the_eight_levels_are_known_and_nothing_else() {
    for level in Level::ALL {
        assert_eq!(Level::read(&format!("\"{}\"", level.word())), Some(level));
    }
    for raw in ["\"Debug\"", "\"warn\"", "\"\"", "7", "null", "[\"debug\"]"] {
        assert_eq!(Level::read(raw), None, "{raw}");
    }
    assert!(Level::ALL.is_sorted());
}

#[test]
fn a_session_hears_what_is_severe_enough() {
    let hearing = Hearing::default();
    assert_eq!(
        (hearing.wanted(), hearing.hears(Level::Debug, &alpha().id), hearing.hears(Level::Info, &alpha().id)),
        (None, false, true)
    );
    hearing.want(Level::Error);
    assert_eq!(hearing.wanted(), Some(Level::Error));
    assert_eq!(
        (hearing.hears(Level::Warning, &alpha().id), hearing.hears(Level::Critical, &alpha().id)),
        (false, true)
    );
    hearing.want(Level::Debug);
    assert!(hearing.hears(Level::Debug, &alpha().id));
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_heard_up_to_the_bound_and_again_in_the_next_window() {
    let hearing = Hearing::default();
    let heard = || (0..10 * HEARD).filter(|_| hearing.hears(Level::Error, &alpha().id)).count();
    assert_eq!(heard(), HEARD as usize);
    assert!(hearing.hears(Level::Error, &"beta".into()), "others are heard meanwhile");
    tokio::time::advance(WINDOW).await;
    assert_eq!(heard(), HEARD as usize);
}

#[test]
fn a_modern_request_hears_only_what_it_asks_for() {
    let warning = message(r#"{"level":"warning","data":"d"}"#);
    assert_eq!(Ear::Request(None).hear(&warning, &alpha()), None);
    let mut ear = Ear::Request(Some((Level::Error, Window::default())));
    assert_eq!(ear.hear(&warning, &alpha()), None);
    assert!(ear.hear(&message(r#"{"level":"alert","data":"d"}"#), &alpha()).is_some());
    assert_eq!(ear.hear(&message(r#"{"data":"d"}"#), &alpha()), None);
}

#[test]
fn a_message_names_its_upstream() {
    let told: Vec<_> = [
        r#"{"level":"info","logger":"db \"x\"","data":{"n":1.0},"_meta":{"x":1,"io.modelcontextprotocol/subscriptionId":3}}"#,
        r#"{"level":"info","data":"text"}"#,
        r#"{"level":"info","data":"text","logger":7}"#,
    ]
    .map(|params| String::from_utf8_lossy(&shown(&message(params), &alpha()).unwrap()).into_owned())
    .into();
    expect![[r#"
        {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"alpha/db \"x\"","data":{"n":1.0},"_meta":{"x":1}}}
        {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"text","logger":"alpha"}}
        {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"text","logger":"alpha"}}"#]]
    .assert_eq(&told.join("\n"));
    let large = format!(r#"{{"level":"info","data":"{}"}}"#, "x".repeat(LARGEST));
    assert_eq!(shown(&message(&large), &alpha()), None);
}

#[test]
fn what_a_message_says_is_passed_on_without_secrets() {
    let told = |params: &str| {
        shown(&message(params), &alpha()).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    };
    let params = r#"{"level":"info","logger":"head-s3cret","data":{"sent":"Bearer head-s3cret","n":1.0},"query-s3cret":1}"#;
    expect![[r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"alpha/***","data":{"sent":"***","n":1.0},"***":1}}"#]]
        .assert_eq(&told(params).unwrap());
    let twins = r#"{"level":"info","data":{"head-s3cret":1,"query-s3cret":2}}"#;
    assert_eq!(told(twins), None, "two names that are one now");
    assert_eq!(excerpt(&message(params), &alpha()), r#"{"sent":"***","n":1.0}"#);
}
