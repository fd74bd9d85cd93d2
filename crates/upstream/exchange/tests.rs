//! Tests: timeouts, progress and cancellation of one request.

use crate::connection::Wait;
use crate::declared::{Behalf, Behind, Declared};
use crate::error::UpstreamError;
use crate::exchange::{Exchange, Incoming};
use crate::link::{Carrier, Link, Manner, Outgoing};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;
use wire::Method;

const WAIT: Wait = Wait { first: Duration::from_secs(60), most: Duration::from_secs(600), progress: true };

const CAP: usize = 20 << 20;

fn link() -> (Arc<Link>, Receiver<Outgoing>) {
    Link::new(Arc::default(), Carrier::Pipe, CAP, Behalf::default())
}

fn build(id: &wire::Id) -> Bytes {
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call"}}"#, id.raw()))
}

fn ask(link: &Arc<Link>, wait: Wait) -> Exchange {
    link.send(&build, None, wait, Manner::Cancellable).unwrap()
}

/// Plays the writer: takes the next line out and counts it as sent.
fn written(queue: &mut Receiver<Outgoing>) -> Option<String> {
    let outgoing = queue.try_recv().ok()?;
    outgoing.begin().map(|line| String::from_utf8(line.to_vec()).unwrap())
}

fn receive(link: &Link, text: String) {
    link.receive(Bytes::from(text)).unwrap();
}

fn progress(link: &Link, token: &str) {
    receive(
        link,
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        ),
    );
}

fn late(link: &Link) -> u64 {
    link.counters.late.load(std::sync::atomic::Ordering::Relaxed)
}

#[tokio::test]
async fn an_answer_finds_its_request_also_when_the_id_comes_back_as_a_string() {
    let (link, mut queue) = link();
    let (mut first, mut second) = (ask(&link, WAIT), ask(&link, WAIT));
    assert!(written(&mut queue).is_some() && written(&mut queue).is_some());
    receive(&link, format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{{"n":2}}}}"#, second.id().raw()));
    receive(
        &link,
        format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":1,"message":"m"}}}}"#, first.id().raw()),
    );
    let Incoming::Answer(two) = second.next().await else { panic!() };
    assert_eq!(two.result(), Some(r#"{"n":2}"#));
    let Incoming::Answer(one) = first.next().await else { panic!() };
    assert!(one.error().is_some());
    assert!(matches!(first.next().await, Incoming::Failed(UpstreamError::Garbled { .. })));
}

#[tokio::test]
async fn unknown_repeated_and_late_answers_are_dropped_and_counted() {
    let (link, mut queue) = link();
    let mut exchange = ask(&link, WAIT);
    written(&mut queue);
    let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, exchange.id().raw());
    receive(&link, r#"{"jsonrpc":"2.0","id":3,"result":{}}"#.to_owned());
    receive(&link, r#"{"jsonrpc":"2.0","id":"no number","result":{}}"#.to_owned());
    receive(&link, text.clone());
    receive(&link, text);
    assert_eq!(late(&link), 3);
    assert!(matches!(exchange.next().await, Incoming::Answer(_)));
    assert_eq!(link.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn progress_starts_the_time_again_but_not_beyond_the_maximum() {
    let (link, mut queue) = link();
    let mut exchange = ask(&link, WAIT);
    written(&mut queue);
    let (began, mut seen) = (Instant::now(), 0);
    let token = exchange.id().raw().to_owned();
    let feeder = Arc::clone(&link);
    let feed = tokio::spawn(async move {
        loop {
            tokio::time::advance(Duration::from_secs(50)).await;
            progress(&feeder, &token);
            tokio::task::yield_now().await;
        }
    });
    let last = loop {
        match exchange.next().await {
            Incoming::Progress(_) => seen += 1,
            last => break last,
        }
    };
    feed.abort();
    assert!(matches!(last, Incoming::Failed(UpstreamError::TimedOut { sent: true })));
    assert!(seen >= 10, "{seen}");
    let took = began.elapsed().as_secs();
    assert!((600..=650).contains(&took), "{took}");
    assert!(written(&mut queue).unwrap().contains("notifications/cancelled"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up_and_told() {
    let (link, mut queue) = link();
    let mut exchange = ask(&link, WAIT);
    written(&mut queue);
    let began = Instant::now();
    assert!(matches!(exchange.next().await, Incoming::Failed(UpstreamError::TimedOut { sent: true })));
    assert_eq!(began.elapsed().as_secs(), 60);
    let id = exchange.id();
    let id = id.raw();
    let want = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"timed out"}}}}"#
    );
    assert_eq!(written(&mut queue), Some(want));
    // The keeper hears of it.
    link.suspected().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_never_written_is_left_out_and_says_so() {
    let (link, mut queue) = link();
    let mut exchange = ask(&link, WAIT);
    assert!(matches!(exchange.next().await, Incoming::Failed(UpstreamError::TimedOut { sent: false })));
    assert_eq!(written(&mut queue), None);
    assert!(queue.try_recv().is_err(), "nothing to cancel");
}

#[tokio::test]
async fn dropping_an_exchange_cancels_it_by_our_own_id_once() {
    let (link, mut queue) = link();
    let exchange = ask(&link, WAIT);
    written(&mut queue);
    exchange.cancel(Some(r#""the user left""#));
    let id = exchange.id().raw().to_owned();
    drop(exchange);
    let want = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"the user left"}}}}"#
    );
    assert_eq!(written(&mut queue), Some(want));
    assert!(queue.try_recv().is_err());

    let exchange = ask(&link, WAIT);
    written(&mut queue);
    let id = exchange.id().raw().to_owned();
    drop(exchange);
    let want =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    assert_eq!(written(&mut queue), Some(want));

    let unsent = ask(&link, WAIT);
    drop(unsent);
    assert_eq!(written(&mut queue), None);
    assert!(queue.try_recv().is_err());
    assert_eq!(link.in_flight(), 0);
}

#[tokio::test]
async fn an_answered_exchange_is_not_cancelled() {
    let (link, mut queue) = link();
    let exchange = ask(&link, WAIT);
    written(&mut queue);
    receive(&link, format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, exchange.id().raw()));
    drop(exchange);
    assert!(queue.try_recv().is_err());
}

#[tokio::test]
async fn progress_goes_to_its_own_request_and_only_if_it_was_asked_for() {
    let (link, _queue) = link();
    let mut asked = ask(&link, WAIT);
    let silent = ask(&link, Wait { progress: false, ..WAIT });
    progress(&link, asked.id().raw());
    progress(&link, &format!("\"{}\"", asked.id().raw()));
    progress(&link, silent.id().raw());
    progress(&link, "\"invented\"");
    assert!(matches!(asked.next().await, Incoming::Progress(_)));
    assert!(matches!(asked.next().await, Incoming::Progress(_)));
    assert_eq!(late(&link), 2);
}

#[tokio::test]
async fn a_lost_process_fails_all_at_once_and_says_what_was_sent() {
    let (link, mut queue) = link();
    let (mut sent, mut queued) = (ask(&link, WAIT), ask(&link, WAIT));
    written(&mut queue);
    link.close("gone");
    for (exchange, was_sent) in [(&mut sent, true), (&mut queued, false)] {
        let Incoming::Failed(error) = exchange.next().await else { panic!() };
        assert_eq!(error, UpstreamError::Exited { why: "gone".into(), sent: was_sent });
    }
    assert_eq!(written(&mut queue), None, "a request that failed is not written later");
    let refused = link.send(&|_| Bytes::new(), None, WAIT, Manner::Cancellable);
    assert!(matches!(refused, Err(UpstreamError::NotRunning { .. })));
}

#[tokio::test]
async fn an_answer_that_breaks_the_protocol_fails_its_request_now() {
    let (link, mut queue) = link();
    let mut exchange = ask(&link, WAIT);
    written(&mut queue);
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{}},"error":{{"code":1,"message":""}}}}"#,
        exchange.id().raw()
    );
    assert!(link.receive(Bytes::from(line)).is_err());
    assert!(matches!(exchange.next().await, Incoming::Failed(UpstreamError::Garbled { .. })));
}

#[tokio::test]
async fn a_line_with_a_newline_is_never_written() {
    let (link, mut queue) = link();
    let line = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\n\"method\":\"x\"}");
    assert!(matches!(link.tell(line), Err(UpstreamError::Garbled { .. })));
    assert!(queue.try_recv().is_err());
}

#[tokio::test]
async fn what_waits_for_a_server_that_does_not_read_is_bounded() {
    let (link, mut queue) = link();
    let big = Bytes::from(vec![b' '; 4 << 20]);
    let told = (0..100).take_while(|_| link.tell(big.clone()).is_ok()).count();
    assert_eq!(told, 24, "96 MiB");
    assert_eq!(link.tell(big.clone()), Err(UpstreamError::Busy));
    drop(queue.try_recv());
    assert_eq!(link.tell(big), Ok(()), "what is written makes room");
    while queue.try_recv().is_ok() {}
    let told = (0..5000).take_while(|_| link.tell(Bytes::from_static(b"{}")).is_ok()).count();
    assert_eq!(told, 1024);
}

#[tokio::test]
async fn ping_is_answered_here_and_other_requests_wait_for_the_gateway() {
    let (link, mut queue) = link();
    receive(&link, r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#.to_owned());
    assert_eq!(written(&mut queue).as_deref(), Some(r#"{"jsonrpc":"2.0","id":"p","result":{}}"#));
    for n in 0..65 {
        receive(&link, format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"roots/list"}}"#));
    }
    let busy = written(&mut queue).unwrap();
    assert!(busy.contains(r#""id":64"#) && busy.contains("-32603"), "{busy}");
    assert_eq!(link.inbox.pop().unwrap().id().unwrap().raw(), "0");
}

#[tokio::test]
async fn list_changes_coalesce_when_the_gateway_is_busy() {
    let (link, _queue) = link();
    let say =
        |method: &str| receive(&link, format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}"}}"#));
    (0..64).for_each(|_| say("message"));
    (0..100).for_each(|_| say("tools/list_changed"));
    say("prompts/list_changed");
    say("message");
    let dropped = link.counters.dropped.load(std::sync::atomic::Ordering::Relaxed);
    let waiting: Vec<String> =
        std::iter::from_fn(|| link.inbox.pop()).map(|f| f.method_name().to_owned()).collect();
    assert_eq!((dropped, waiting.len()), (1, 66));
    assert_eq!(waiting[64..], ["notifications/tools/list_changed", "notifications/prompts/list_changed"]);
}

#[tokio::test]
async fn a_failure_says_what_kind_of_fault_it_was_and_nothing_the_server_wrote() {
    let result = |text: &str| format!(r#""result":{text}"#);
    for (body, want) in [
        (result(r#"{"hunter2":1,"hunter2":2}"#), "a key stands twice in one object"),
        (r#""result":{},"Result":"hunter2""#.to_owned(), "a key is nearly a reserved one"),
        (result("{\"hunter2\":\"\\ud800\"}"), "half a surrogate pair"),
        (result("hunter2"), "not JSON at byte"),
    ] {
        let (link, mut queue) = link();
        let mut exchange = ask(&link, WAIT);
        written(&mut queue);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{},{body}}}"#, exchange.id().raw());
        let _noise = link.receive(Bytes::from(line));
        let Incoming::Failed(UpstreamError::Garbled { why }) = exchange.next().await else {
            panic!("{body}")
        };
        assert!(why.contains(want) && !why.to_lowercase().contains("hunter2"), "{body}: {why}");
        assert!(!why.to_lowercase().contains("`result`"), "{why}");
    }
}

#[tokio::test]
async fn progress_too_large_to_wait_is_dropped_and_counted() {
    let (link, mut queue) = link();
    let mut exchange = ask(&link, WAIT);
    written(&mut queue);
    let token = exchange.id().raw().to_owned();
    let padded = |size: usize| {
        let start = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"message":""#
        );
        format!(r#"{start}{}"}}}}"#, "x".repeat(size - start.len() - 3))
    };
    receive(&link, padded(64 * 1024 + 1));
    receive(&link, padded(64 * 1024));
    let Incoming::Progress(frame) = exchange.next().await else { panic!() };
    assert_eq!(frame.bytes().len(), 64 * 1024);
    let dropped = link.counters.dropped.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((dropped, late(&link)), (1, 0));
}

#[tokio::test]
async fn an_answer_may_be_as_long_as_a_line() {
    let (link, mut queue) = link();
    for (size, fits) in [(CAP, true), (CAP + 1, false)] {
        let mut exchange = ask(&link, WAIT);
        written(&mut queue);
        let start = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"text":""#, exchange.id().raw());
        let line = format!(r#"{start}{}"}}}}"#, "x".repeat(size - start.len() - 3));
        assert_eq!(link.receive(Bytes::from(line)).is_ok(), fits);
        match exchange.next().await {
            Incoming::Answer(_) => assert!(fits),
            other => {
                assert!(!fits && matches!(other, Incoming::Failed(UpstreamError::TooLarge { limit: CAP })))
            }
        }
    }
}

#[tokio::test]
async fn only_a_list_survives_what_is_malformed_in_it() {
    let (link, mut queue) = link();
    for (method, survives) in [
        (Method::ToolsList, true),
        (Method::PromptsList, true),
        (Method::ResourcesList, true),
        (Method::TemplatesList, true),
        (Method::ToolsCall, false),
        (Method::ResourcesRead, false),
    ] {
        for (result, is_list) in [
            (r#"{"tools":[{"a":1,"a":2},{}]}"#, true),
            (r#"{"tools":["\ud800"]}"#, true),
            (r#"{"tools":[],"tools":[]}"#, false),
            ("{\"tools\":[\"\u{0}\"]}", false),
        ] {
            let mut exchange = link.send(&build, None, WAIT, Manner::of(method)).unwrap();
            written(&mut queue);
            let line = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, exchange.id().raw());
            assert_eq!(link.receive(Bytes::from(line)).is_ok(), survives && is_list, "{method:?} {result}");
            match exchange.next().await {
                Incoming::Answer(answer) => assert!(survives && is_list && !answer.is_strict()),
                Incoming::Failed(UpstreamError::Garbled { .. }) => assert!(!survives || !is_list),
                other => panic!("{other:?}"),
            }
        }
    }
    let mut exchange = link.send(&build, None, WAIT, Manner::Listing).unwrap();
    written(&mut queue);
    let start = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":["#, exchange.id().raw());
    let line = [start.as_bytes(), b"\"\xff\"]}}"].concat();
    assert!(link.receive(Bytes::from(line)).is_err());
    // Nobody knows whose answer it was.
    assert!(tokio::time::timeout(Duration::ZERO, exchange.next()).await.is_err());
}

fn behalf(behind: Behind) -> Behalf {
    Behalf { behind, ..Behalf::default() }
}

/// A link to a process that serves one client only.
fn exclusive() -> (Arc<Link>, Receiver<Outgoing>) {
    Link::new(Arc::default(), Carrier::Pipe, CAP, behalf(Behind::One(Declared::of(r#"{"elicitation":{}}"#))))
}

fn asked(link: &Link, id: &str) {
    receive(link, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{{}}}}"#));
}

fn logged(link: &Link) {
    receive(link, r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#.to_owned());
}

#[tokio::test]
async fn a_question_belongs_to_the_only_call_of_the_only_client() {
    let (link, mut queue) = exclusive();
    let mut exchange = ask(&link, WAIT);
    // What we ask for ourselves causes no questions.
    let _quiet = link.send(&build, None, WAIT, Manner::Quiet).unwrap();
    while written(&mut queue).is_some() {}
    asked(&link, "\"q\"");
    logged(&link);
    let Incoming::Question(question) = exchange.next().await else { panic!() };
    assert!(matches!(exchange.next().await, Incoming::Told(_)));
    assert!(link.inbox.pop().is_none());
    let line = wire::code::success(question.id().unwrap(), "{}");
    exchange.reply(line.clone());
    exchange.reply(line);
    assert_eq!(written(&mut queue).as_deref(), Some(r#"{"jsonrpc":"2.0","id":"q","result":{}}"#));
    assert_eq!(written(&mut queue), None, "answered once");
}

#[tokio::test]
async fn a_question_with_two_causes_or_none_or_on_a_shared_seat_belongs_to_no_request() {
    let shared = link();
    let none = exclusive();
    let two = exclusive();
    let _calls = (ask(&shared.0, WAIT), ask(&two.0, WAIT), ask(&two.0, WAIT));
    for (link, _queue) in [&shared, &none, &two] {
        asked(link, "1");
        logged(link);
        let waiting: Vec<String> =
            std::iter::from_fn(|| link.inbox.pop()).map(|frame| frame.method_name().to_owned()).collect();
        assert_eq!(waiting, ["elicitation/create", "notifications/message"]);
    }
}

#[tokio::test]
async fn questions_and_what_is_told_are_bounded() {
    let (link, mut queue) = exclusive();
    let mut exchange = ask(&link, WAIT);
    written(&mut queue);
    (0..65).for_each(|n| asked(&link, &n.to_string()));
    let busy = written(&mut queue).unwrap();
    assert!(busy.contains(r#""id":64"#) && busy.contains("busy"), "{busy}");
    (0..65).for_each(|_| logged(&link));
    assert_eq!(link.counters.dropped.load(std::sync::atomic::Ordering::Relaxed), 2);
    for _ in 0..64 {
        assert!(matches!(exchange.next().await, Incoming::Question(_)));
    }
    // Looked at is not answered.
    asked(&link, "65");
    assert!(written(&mut queue).unwrap().contains("busy"));
}

#[tokio::test]
async fn questions_without_an_answer_are_refused_when_their_request_is_over() {
    let (link, mut queue) = exclusive();
    let mut exchange = ask(&link, WAIT);
    written(&mut queue);
    asked(&link, "1");
    asked(&link, "2");
    assert!(matches!(exchange.next().await, Incoming::Question(_)));
    drop(exchange);
    let said: Vec<String> = std::iter::from_fn(|| written(&mut queue)).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[..2].iter().all(|line| line.contains("-32602")), "{said:?}");
    assert!(said[2].contains("notifications/cancelled"));
}

#[tokio::test]
async fn a_question_that_is_taken_back_is_not_answered() {
    let (link, mut queue) = exclusive();
    let mut exchange = ask(&link, WAIT);
    written(&mut queue);
    let take_back = |id: &str| {
        let params = format!(r#"{{"requestId":{id}}}"#);
        receive(
            &link,
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#),
        );
    };
    asked(&link, "1");
    assert!(matches!(exchange.next().await, Incoming::Question(_)));
    take_back("1");
    asked(&link, "2");
    take_back("2");
    take_back("3");
    let Incoming::Told(frame) = exchange.next().await else { panic!() };
    assert_eq!(frame.param("requestId"), Some("1"));
    assert!(tokio::time::timeout(Duration::ZERO, exchange.next()).await.is_err(), "never seen");
    exchange.reply(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    assert_eq!((written(&mut queue), late(&link)), (None, 2));
}

#[tokio::test(start_paused = true)]
async fn the_clock_stands_still_while_a_person_answers() {
    let (link, mut queue) = exclusive();
    let mut exchange = ask(&link, WAIT);
    written(&mut queue);
    tokio::time::advance(Duration::from_secs(50)).await;
    asked(&link, "1");
    assert!(matches!(exchange.next().await, Incoming::Question(_)));
    exchange.pause();
    exchange.pause();
    let hour = tokio::time::timeout(Duration::from_secs(3600), exchange.next()).await;
    assert!(hour.is_err(), "neither the time allowed nor the hard maximum runs (spec Q-05)");
    exchange.resume();
    let resumed = Instant::now();
    assert!(matches!(exchange.next().await, Incoming::Failed(UpstreamError::TimedOut { sent: true })));
    assert_eq!(resumed.elapsed().as_secs(), 60);
}
