//! A running request as its connection sees it.

use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use wire::Revision;

use super::*;
use crate::session::tests::session;

/// A request of a client that cannot come back to a stream, and of one that can.
const REVISIONS: [Revision; 2] = [Revision::R2024_11_05, Revision::R2025_06_18];

fn text(out: Option<Out>) -> Option<(String, bool)> {
    let out = out?;
    Some((written(out.message), out.last))
}

fn written(pieces: Pieces) -> String {
    String::from_utf8(pieces.join().to_vec()).unwrap()
}

fn message(text: &'static str) -> Pieces {
    Pieces::one(text.into())
}

fn answer() -> Option<Out> {
    Some(Out::said(message("answer"), true))
}

fn within(revision: Revision) -> Bond {
    Bond::Session(session(revision))
}

/// A request that says one thing, then waits for a word before it answers.
fn running(bond: Bond, tracker: &TaskTracker) -> (Running, Arc<Outbox>, oneshot::Sender<()>) {
    let (go, gone) = oneshot::channel();
    let outbox = Arc::new(Outbox::new(Reach::Connection));
    let said = Arc::clone(&outbox);
    let work = async move {
        said.say(message("progress"));
        gone.await.ok()?;
        answer()
    };
    (Running::new(Arc::clone(&outbox), Box::pin(work), bond, tracker.token()), outbox, go)
}

async fn data(following: &mut Following) -> Option<String> {
    let event = written(following.next_event().await?);
    Some(event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned())
}

#[tokio::test]
async fn what_was_said_before_the_answer_comes_before_it() {
    let tracker = TaskTracker::new();
    let (mut running, _, go) = running(within(Revision::R2025_11_25), &tracker);
    go.send(()).unwrap();
    assert_eq!(text(running.next().await), Some(("progress".into(), false)));
    assert_eq!(text(running.next().await), Some(("answer".into(), true)));
    assert_eq!(text(running.next().await), None);
}

#[tokio::test]
async fn a_stream_loses_nothing_wherever_it_is_begun() {
    for bond in [within(REVISIONS[0]), within(REVISIONS[1]), Bond::Connection] {
        for (taken, is_over) in [(false, false), (true, false), (true, true)] {
            let tracker = TaskTracker::new();
            let (mut running, _, go) = running(bond.clone(), &tracker);
            let mut go = Some(go);
            if is_over {
                go.take().map(|go| go.send(()));
            }
            let first = if taken { running.next().await } else { None };
            let mut following = running.begin(first);
            go.map(|go| go.send(()));
            assert_eq!(data(&mut following).await.as_deref(), Some("progress"));
            assert_eq!(data(&mut following).await.as_deref(), Some("answer"));
            assert_eq!(data(&mut following).await, None);
        }
    }
}

#[tokio::test]
async fn a_stream_may_begin_before_there_is_anything_to_say() {
    for (bond, is_primed) in [
        (within(REVISIONS[0]), false),
        (within(REVISIONS[1]), false),
        (within(Revision::R2025_11_25), true),
        (Bond::Connection, false),
    ] {
        for taken in [false, true] {
            let tracker = TaskTracker::new();
            let outbox = Arc::new(Outbox::new(Reach::Connection));
            let (go, gone) = oneshot::channel::<()>();
            let work = async move {
                gone.await.ok()?;
                answer()
            };
            let mut running =
                Running::new(Arc::clone(&outbox), Box::pin(work), bond.clone(), tracker.token());
            outbox.begin();
            outbox.begin();
            let first = if taken { running.next().await } else { None };
            assert_eq!(first.is_some(), taken);
            let mut following = running.begin(first);
            if is_primed {
                let event = written(following.next_event().await.unwrap());
                assert!(event.starts_with("id: ") && event.ends_with("retry: 1000\ndata: \n\n"), "{event}");
            }
            assert!(following.next_event().now_or_never().is_none(), "no event without words");
            go.send(()).unwrap();
            outbox.begin();
            assert_eq!(data(&mut following).await.as_deref(), Some("answer"));
            assert_eq!(data(&mut following).await, None);
        }
    }
}

#[test]
fn a_client_that_takes_one_message_gets_no_stream() {
    let outbox = Outbox::new(Reach::AnswerOnly);
    outbox.begin();
    assert!(outbox.waiting().messages.is_empty());
}

#[tokio::test]
async fn only_a_client_that_can_come_back_gets_ids() {
    for (bond, expected) in
        [(within(REVISIONS[0]), false), (within(REVISIONS[1]), true), (Bond::Connection, false)]
    {
        let (running, ..) = running(bond, &TaskTracker::new());
        let event = written(running.begin(None).next_event().await.unwrap());
        assert_eq!(event.starts_with("id: "), expected, "{event}");
    }
}

#[tokio::test]
async fn a_client_comes_back_for_the_answer_it_missed() {
    let tracker = TaskTracker::new();
    let session = session(Revision::R2025_06_18);
    let (running, outbox, go) = running(Bond::Session(Arc::clone(&session)), &tracker);
    let mut following = running.begin(None);
    let first = written(following.next_event().await.unwrap());
    let id = first.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    drop(following);
    assert!(outbox.put(message("question")), "it may come back to read it");
    go.send(()).unwrap();
    let mut back = session.resume(id).unwrap();
    for expected in ["question", "answer"] {
        let event = written(back.next_event().await.unwrap());
        assert!(event.ends_with(&format!("data: {expected}\n\n")), "{event}");
    }
    assert!(back.next_event().await.is_none());
}

#[tokio::test]
async fn a_request_of_a_session_goes_on_when_nobody_listens() {
    for revision in REVISIONS {
        for streamed in [false, true] {
            let tracker = TaskTracker::new();
            let (mut running, _, go) = running(within(revision), &tracker);
            assert!(running.next().await.is_some());
            assert!(running.next().now_or_never().is_none());
            if streamed {
                drop(running.begin(None))
            } else {
                drop(running)
            }
            assert_eq!(tracker.len(), 1);
            go.send(()).unwrap();
            tracker.close();
            tracker.wait().await;
        }
    }
}

#[tokio::test]
async fn a_request_of_a_connection_ends_with_it() {
    for streamed in [false, true] {
        let tracker = TaskTracker::new();
        let (mut running, _, mut go) = running(Bond::Connection, &tracker);
        assert!(running.next().await.is_some());
        if streamed {
            drop(running.begin(None))
        } else {
            drop(running)
        }
        go.closed().await;
        tracker.close();
        tracker.wait().await;
    }
}

#[tokio::test]
async fn a_stream_ends_with_a_request_that_panics() {
    let outbox = Arc::new(Outbox::new(Reach::Connection));
    let tracker = TaskTracker::new();
    let work = async { panic!("on purpose") };
    let running = Running::new(outbox, Box::pin(work), within(REVISIONS[1]), tracker.token());
    assert!(running.begin(None).next_event().await.is_none());
}

#[tokio::test]
async fn a_drain_waits_for_what_runs_in_its_connection() {
    let tracker = TaskTracker::new();
    let (running, ..) = running(Bond::Connection, &tracker);
    tracker.close();
    assert!(tracker.wait().now_or_never().is_none());
    drop(running);
    tracker.wait().await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_misses_what_comes_too_much() {
    let outbox = Outbox::new(Reach::Connection);
    for _ in 0..2 * DEPTH {
        outbox.say(message("progress"));
    }
    assert_eq!(outbox.waiting().messages.len(), DEPTH);
    for _ in 0..QUESTIONS {
        assert!(outbox.put(message("question")));
    }
    assert!(!outbox.put(message("question")), "that has a bound too");
}

#[tokio::test]
async fn nothing_is_put_where_nobody_reads() {
    assert!(!Outbox::new(Reach::AnswerOnly).put(message("question")));
    for (bond, begun) in [(within(REVISIONS[0]), true), (within(REVISIONS[1]), false)] {
        let (running, outbox, _go) = running(bond, &TaskTracker::new());
        assert!(outbox.put(message("question")));
        if begun {
            drop(running.begin(None))
        } else {
            drop(running)
        }
        assert!(!outbox.put(message("question")));
    }
}
