//! Tests: what comes back for one request: both forms, all spellings, and everything that is no answer.

use crate::fake::{
    Asked, Fake, Reply, empty, event, events, fine, full, legacy, message, ready, silence, stream, text, with,
};
use crate::scripted::{CALM, LONG, answer, ask, call, meanwhile};
use crate::{Credential, Incoming, Outbound, UpstreamError, Wait};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use wire::Method;

type On = fn(Asked) -> Reply;

async fn serving(on: On) -> Fake {
    Fake::new(legacy(move |asked| std::future::ready(on(asked)))).await
}

#[tokio::test]
async fn json_and_streams_are_answers_alike() {
    let fake = serving(|asked| {
        let answer = asked.result(json!({"ok": 1}));
        match asked.method() {
            "json" => message(200, &answer),
            "stream" => events(event(&answer)),
            "case" => with(message(200, &answer), "content-type", "Application/JSON; Charset=UTF-8"),
            _ => with(events(event(&answer)), "content-type", "TEXT/Event-Stream;charset=utf-8"),
        }
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    for method in ["json", "stream", "case", "stream case"] {
        assert_eq!(call(&connection, method, "ok").await, "1", "{method}");
    }
    assert_eq!((connection.process(), connection.pid()), (None, 0));
    upstream.stop().await;
}

/// One message as a stream, each way a server may spell it (spec H-10).
fn spellings(message: &Value) -> Vec<(String, Vec<u8>)> {
    let text = serde_json::to_string_pretty(message).unwrap();
    let mut all = Vec::new();
    for end in ["\n", "\r\n", "\r"] {
        for extra in [
            "",
            ": hello\n",
            "event: message\n",
            "event: other\ndata: {\"x\":1}\n\n",
            "id: 7\ndata:\n\n",
            "retry: 9\n",
            "nonsense\n",
        ] {
            for mark in ["", "\u{feff}"] {
                let lines: String = text.lines().map(|line| format!("data:{line}\n")).collect();
                let spelled = format!("{mark}{extra}{lines}\n").replace('\n', end);
                all.push((format!("{end:?} {extra:?} {mark:?}"), spelled.into_bytes()));
            }
        }
    }
    all
}

#[tokio::test]
async fn every_spelling_of_a_stream_says_the_same() {
    let count = spellings(&json!({})).len();
    for step in [1, 7, 4096] {
        let fake = Fake::new(legacy(move |asked| {
            let which: usize = asked.body["params"]["which"].as_u64().unwrap().try_into().unwrap();
            let (_, bytes) =
                spellings(&asked.result(json!({"text": "\u{4e2d}\u{2028}\n"}))).swap_remove(which);
            let (pen, reply) = stream();
            // Cut anywhere, also within a character.
            bytes.chunks(step).for_each(|chunk| pen.send(chunk.to_vec().into()).unwrap());
            std::future::ready(reply)
        }))
        .await;
        let upstream = fake.start();
        let connection = upstream.connection().await.unwrap();
        for which in 0..count {
            let mut exchange = ask(&connection, "tools/call", &format!(r#"{{"which":{which}}}"#), CALM);
            let (spelling, _) = spellings(&json!({})).swap_remove(which);
            let frame = answer(&mut exchange).await.unwrap_or_else(|error| panic!("{spelling}: {error}"));
            let got: Value = serde_json::from_str(frame.result_member("text").unwrap()).unwrap();
            assert_eq!(got, json!("\u{4e2d}\u{2028}\n"), "{spelling} {step}");
        }
        upstream.stop().await;
    }
}

#[tokio::test]
async fn what_comes_before_the_answer_is_heard_too() {
    let mut fake = serving(|asked| {
        if asked.method() != "go" {
            return empty(500);
        }
        let token = &asked.body["params"]["_meta"]["progressToken"];
        let mut body = String::new();
        for n in 0..3 {
            body += &event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}}));
        }
        body += &event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        body += &event(&json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}));
        body += &event(&json!({"jsonrpc": "2.0", "id": 5, "method": "ping"}));
        body += "data: what?\n\n";
        body += &event(&json!({"jsonrpc": "2.0", "id": 1, "result": {"stray": true}}));
        events(body + &event(&asked.result(json!({"ok": 1}))) + &event(&asked.result(json!({"two": 2}))))
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let build = |id: &wire::Id| {
        let id = id.raw();
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"go","params":{{"_meta":{{"progressToken":{id}}}}}}}"#
        )
        .into()
    };
    let mut exchange = connection.send(&build, CALM).unwrap();
    for n in ["0", "1", "2"] {
        let Incoming::Progress(frame) = timeout(LONG, exchange.next()).await.unwrap() else { panic!() };
        assert_eq!(frame.param("progress"), Some(n));
    }
    let frame = answer(&mut exchange).await.unwrap();
    assert_eq!(frame.result(), Some(r#"{"ok":1}"#), "the first answer, and the only one");
    assert!(matches!(fake.notice().await, crate::What::Up(_)));
    let crate::What::Notification(changed) = fake.notice().await else { panic!() };
    assert_eq!(changed.method_name(), "notifications/tools/list_changed");
    let crate::What::Request(back, question) = fake.notice().await else { panic!() };
    back.tell(wire::success(question.id().unwrap(), r#"{"roots":[]}"#)).unwrap();
    let (pong, roots) = (fake.until("POST", "", 1).await.body, fake.until("POST", "", 2).await.body);
    let mut told = [pong["id"].clone(), roots["id"].clone()];
    told.sort_by_key(|id| id.is_string());
    assert_eq!(told, [json!(5), json!("q")]);
    assert_eq!(upstream.counters().noise.load(Ordering::Relaxed), 1);
    assert_eq!(
        upstream.counters().late.load(Ordering::Relaxed),
        1,
        "the stray one; the second answer is not even read"
    );
    upstream.stop().await;
}

/// An answer of which one item can be read in two ways.
fn twice(asked: &Asked) -> String {
    let id = &asked.body["id"];
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{{"name":"a","name":"b"}},{{}}]}}}}"#)
}

#[tokio::test]
async fn only_a_list_survives_a_malformed_item() {
    let forms: [On; 2] = [
        |asked| full(200, "application/json", twice(&asked)),
        |asked| events(format!("data: {}\n\n", twice(&asked))),
    ];
    for form in forms {
        let fake = serving(form).await;
        let upstream = fake.start();
        let connection = upstream.connection().await.unwrap();
        for (method, survives) in [(Method::ToolsList, true), (Method::ToolsCall, false)] {
            let build = |id: &wire::Id| {
                format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{}"}}"#, id.raw(), method.name()).into()
            };
            let outbound = Outbound { method, name: None, mirrored: &[], caller: None, build: &build };
            match answer(&mut connection.send_outbound(&outbound, CALM).unwrap()).await {
                Ok(frame) => assert!(survives && !frame.is_strict()),
                Err(error) => assert!(!survives && error == garbled("a key stands twice in one object")),
            }
        }
        upstream.stop().await;
    }
}

fn not_running(why: &str) -> UpstreamError {
    UpstreamError::not_running(why)
}

fn garbled(why: &str) -> UpstreamError {
    UpstreamError::garbled(why)
}

fn exited(why: &str) -> UpstreamError {
    UpstreamError::Exited { why: why.into(), sent: true }
}

type Failure = (&'static str, On, UpstreamError);

/// What is no answer, and what the caller is told. Nothing of what the server wrote is in there.
fn failures() -> Vec<Failure> {
    let mut all = wrong_bodies();
    all.extend(wrong_statuses());
    all
}

fn wrong_bodies() -> Vec<Failure> {
    let neither = garbled("its answer is neither JSON nor an event stream");
    let misplaced = garbled("its answer is not for this request");
    let endless = garbled("it ended its event stream without the answer");
    let large = UpstreamError::TooLarge { limit: 4 << 20 };
    vec![
        ("nothing", |_| empty(200), neither.clone()),
        ("page", |_| full(200, "text/html", "<script>alert(1)</script>"), neither),
        (
            "empty JSON",
            |_| full(200, "application/json", ""),
            garbled("it took the request and gave no answer"),
        ),
        ("array", |asked| message(200, &json!([asked.result(json!({}))])), garbled("a batch")),
        ("junk", |_| full(200, "application/json", "{"), garbled("not JSON at byte 1: a key is expected")),
        ("other", |_| message(200, &json!({"jsonrpc": "2.0", "id": 1, "result": {}})), misplaced.clone()),
        ("unasked", |_| message(200, &json!({"jsonrpc": "2.0", "method": "x"})), misplaced),
        (
            "both",
            |asked| message(200, &both(&asked)),
            garbled("neither a request, a notification nor an answer"),
        ),
        ("stream without", |_| events(": nothing\n\n"), endless.clone()),
        ("stream broken", |asked| events(format!("data: {{\"id\":{}\n\n", asked.body["id"])), endless),
        (
            "packed",
            |asked| with(fine_now(&asked), "content-encoding", "gzip"),
            garbled("its answer is compressed"),
        ),
        ("large", |asked| message(200, &long(&asked)), large.clone()),
        ("large stream", |asked| events(event(&long(&asked))), large),
    ]
}

fn wrong_statuses() -> Vec<Failure> {
    let credential = UpstreamError::Credential { why: "it does not accept our credential" };
    vec![
        ("202", |_| empty(202), garbled("it took the request and gave no answer")),
        ("307", |_| with(empty(307), "location", "http://collector.example/"), garbled("redirect refused")),
        (
            "401",
            |asked| {
                with(
                    message(401, &asked.error(-1, json!(null))),
                    "www-authenticate",
                    "Bearer resource_metadata=\"http://169.254.169.254/\"",
                )
            },
            credential.clone(),
        ),
        ("403", |_| text(403, "secret"), credential),
        ("404", |_| text(404, "secret"), garbled("it answered with HTTP status 404")),
        ("429", |_| with(text(429, "secret"), "retry-after", "1000000000000"), UpstreamError::Busy),
        ("500", |_| text(500, "secret"), exited("it answered with HTTP status 500")),
        ("503", |_| message(503, &json!({"detail": "secret"})), exited("it answered with HTTP status 503")),
    ]
}

fn both(asked: &Asked) -> Value {
    let mut both = asked.result(json!({}));
    both["error"] = json!({"code": 1, "message": "m"});
    both
}

fn long(asked: &Asked) -> Value {
    asked.result(json!({"text": "x".repeat(5 << 20)}))
}

fn fine_now(asked: &Asked) -> Reply {
    message(200, &asked.result(json!({"ok": 1})))
}

#[tokio::test]
async fn what_is_no_answer_fails_its_request_and_no_other() {
    let fake = Fake::new(legacy(|asked: Asked| -> BoxFuture<'static, Reply> {
        match failures().into_iter().find(|(what, ..)| *what == asked.method()) {
            Some((_, reply, _)) => ready(reply(asked)),
            None => Box::pin(fine(asked)),
        }
    }))
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    for (what, _, want) in failures() {
        let got = timeout(LONG, answer(&mut ask(&connection, what, "{}", CALM))).await.unwrap();
        assert_eq!(got.unwrap_err(), want, "{what}");
        assert_eq!(call(&connection, "fine", "ok").await, "1", "{what}");
    }
    assert!(connection.is_open());
    upstream.stop().await;
}

#[tokio::test]
async fn errors_of_the_server_are_answers_whatever_their_status() {
    for (status, id) in [(200, true), (400, true), (400, false), (404, true), (422, true), (500, true)] {
        let fake = Fake::new(legacy(move |asked: Asked| {
            let mut error = asked.error(-32602, json!(null));
            if !id {
                error["id"] = json!(null);
            }
            std::future::ready(message(status, &error))
        }))
        .await;
        let upstream = fake.start();
        let connection = upstream.connection().await.unwrap();
        let frame = answer(&mut ask(&connection, "tools/call", "{}", CALM)).await.unwrap();
        assert_eq!(frame.error_member("code"), Some("-32602"), "{status} {id}");
        upstream.stop().await;
    }
}

#[tokio::test]
async fn a_silent_answer_times_out_and_comments_do_not_help() {
    let (pens, mut opened) = mpsc::unbounded_channel();
    let fake = Fake::new(legacy(move |asked: Asked| -> BoxFuture<'static, Reply> {
        match asked.method() {
            "hang" => Box::pin(silence()),
            _ => {
                let (pen, reply) = stream();
                pens.send(pen).unwrap();
                ready(reply)
            }
        }
    }))
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let brief = Wait { first: Duration::from_millis(300), most: LONG, progress: false };
    let hanging = answer(&mut ask(&connection, "hang", "{}", brief)).await;
    assert_eq!(hanging.unwrap_err(), UpstreamError::TimedOut { sent: true });
    let mut exchange = ask(&connection, "comments", "{}", brief);
    let pen = meanwhile(&mut exchange, opened.recv()).await.unwrap();
    let chatter = tokio::spawn(async move {
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        while pen.send(": still here\n\n".to_owned().into()).is_ok() {
            pace.tick().await;
        }
    });
    let chatting = timeout(LONG, answer(&mut exchange)).await.unwrap();
    assert_eq!(chatting.unwrap_err(), UpstreamError::TimedOut { sent: true });
    // The stream was let go of, and the server was told in its own way (spec H-25).
    timeout(LONG, chatter).await.unwrap().unwrap();
    let cancelled = fake.until("POST", "notifications/cancelled", 2).await;
    assert_eq!(cancelled.body["params"]["requestId"].to_string(), exchange.id().raw());
    upstream.stop().await;
}

#[tokio::test]
async fn bytes_behind_an_answer_answer_nobody() {
    let own = |asked: &Asked| asked.result(json!({"own": asked.method()})).to_string();
    let fake = Fake::raw(move |asked| {
        let reply = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        match asked.method() {
            "server/discover" => b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "initialize" => reply(&asked.result(crate::fake::hello("2025-06-18")).to_string()).into_bytes(),
            "notifications/initialized" => b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "two lengths" => b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
            "no HTTP" => b"hello there\r\n\r\n".to_vec(),
            "surplus" => {
                // Answers for the next ids as well, in a response that nobody asked for.
                let forged = json!({"jsonrpc": "2.0", "id": asked.body["id"].as_u64().unwrap() + 1, "result": {"own": "forged"}});
                (reply(&own(&asked)) + &reply(&forged.to_string())).into_bytes()
            }
            "" => b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_vec(),
            _ => reply(&own(&asked)).into_bytes(),
        }
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    for round in 0..20 {
        assert_eq!(call(&connection, "surplus", "own").await, "\"surplus\"", "{round}");
        assert_eq!(call(&connection, "next", "own").await, "\"next\"", "{round}");
    }
    for (method, want) in [
        ("two lengths", garbled("its answer has two lengths")),
        ("no HTTP", exited("the connection broke before the answer")),
    ] {
        assert_eq!(answer(&mut ask(&connection, method, "{}", CALM)).await.unwrap_err(), want, "{method}");
        assert_eq!(call(&connection, "next", "own").await, "\"next\"");
    }
    upstream.stop().await;
}

#[tokio::test]
async fn only_our_own_headers_go_out() {
    let mut fake = Fake::new(legacy(fine)).await;
    let credentials = [("Authorization", "Bearer up-own"), ("X-Api-Key", "k1"), ("x-api-key", "k2")];
    let headers = credentials.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    fake.address().credential = Credential::headers(headers);
    let shown = format!("{:?}", fake.spec);
    assert!(shown.contains("Authorization") && !shown.contains("up-own"), "{shown}");
    let upstream = fake.start();
    call(&upstream.connection().await.unwrap(), "tools/list", "ok").await;
    let known = [
        "accept",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "mcp-method",
        "mcp-protocol-version",
        "user-agent",
        "x-api-key",
    ];
    for asked in fake.journal() {
        assert_eq!(asked.header("authorization"), "Bearer up-own");
        assert_eq!(asked.headers.get_all("x-api-key").iter().count(), 2);
        assert_eq!(asked.header("user-agent"), concat!("portcullis/", env!("CARGO_PKG_VERSION")));
        let accept =
            if asked.verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
        assert_eq!(asked.header("accept"), accept, "{}", asked.verb);
        assert!(asked.headers.keys().all(|name| known.contains(&name.as_str())), "{:?}", asked.headers);
        assert_eq!(asked.target, "/mcp");
    }
    upstream.stop().await;
}

#[tokio::test]
async fn an_address_that_cannot_work_says_why() {
    let cases: [(&str, &str, &str); 6] = [
        ("bad name", "x", "`bad name` is no header name"),
        ("X-Key", "a\nb", "the value of the header `X-Key` holds a character that headers do not carry"),
        ("Content-Length", "3", "the header `Content-Length` is not for the configuration to set"),
        ("Mcp-Session-Id", "3", "the header `Mcp-Session-Id` is not for the configuration to set"),
        ("ftp://localhost/", "", "the URL is neither http nor https"),
        ("http://user:secret@localhost/", "", "the URL holds credentials; they belong into a header"),
    ];
    for (name, value, want) in cases {
        let mut fake = Fake::new(legacy(fine)).await;
        match url::Url::parse(name) {
            Ok(url) => fake.address().url = url,
            Err(_) => {
                fake.address().credential = Credential::headers(vec![(name.to_owned(), value.to_owned())]);
            }
        }
        let upstream = fake.start();
        assert_eq!(upstream.connection().await.unwrap_err(), not_running(want));
        assert!(fake.journal().is_empty());
        upstream.stop().await;
    }
}

#[tokio::test]
async fn many_calls_at_once_are_told_apart() {
    let fake = Fake::new(legacy(|asked: Asked| async move {
        let echo = asked.result(json!({"n": asked.body["params"]["n"]}));
        if asked.body["params"]["n"].as_u64().unwrap().is_multiple_of(2) {
            message(200, &echo)
        } else {
            events(event(&echo))
        }
    }))
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..500 {
        let connection = Arc::clone(&connection);
        calls.spawn(async move {
            let frame =
                answer(&mut ask(&connection, "tools/call", &format!(r#"{{"n":{n}}}"#), CALM)).await.unwrap();
            assert_eq!(frame.result_member("n"), Some(n.to_string().as_str()));
        });
    }
    while let Some(ended) = calls.join_next().await {
        ended.unwrap();
    }
    upstream.stop().await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_all_we_may_ask_is_not_taken_for_dead() {
    let fake = Fake::new(legacy(|asked: Asked| async move {
        if asked.method() == "hold" {
            return silence().await;
        }
        message(200, &asked.result(json!({"ok": 1})))
    }))
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let mut held = tokio::task::JoinSet::new();
    for _ in 0..128 {
        let mut exchange = ask(&connection, "hold", "{}", CALM);
        held.spawn(async move { exchange.next().await });
    }
    fake.until("POST", "hold", 128).await;
    let brief = Wait { first: Duration::from_millis(100), most: LONG, progress: false };
    let waiting = answer(&mut ask(&connection, "tools/call", "{}", brief)).await;
    assert_eq!(waiting.unwrap_err(), UpstreamError::TimedOut { sent: false }, "it waited for its turn");
    fake.until("POST", "ping", 1).await;
    assert_eq!(fake.count("POST", "tools/call"), 0);
    held.shutdown().await;
    assert_eq!(call(&connection, "tools/call", "ok").await, "1");
    assert!(connection.is_open());
    upstream.stop().await;
}
