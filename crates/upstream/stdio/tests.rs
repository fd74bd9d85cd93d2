//! Tests: a real process: framing, floods, endings.

use crate::scripted::{CALM, LONG, Scripted, answer, ask, call};
use crate::{Connection, UpstreamError, Wait, What};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

#[tokio::test]
async fn noise_on_stdout_is_skipped_and_counted() {
    let scripted = Scripted::new(
        "
raw(b'Welcome!\\n\\n[1]\\n{\"level\":\"info\"}\\n\\xff\\xfe\\n  \\t\\r\\n')
def on(m): raw(b'about to answer\\n'); result(m, {'ok': 1})
serve(on)",
    );
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    for _ in 0..3 {
        assert_eq!(call(&connection, "tools/list", "ok").await, "1");
    }
    assert_eq!(upstream.counters().noise.load(Ordering::Relaxed), 4 + 3, "empty lines do not count");
    upstream.stop().await;
}

#[tokio::test]
async fn text_survives_being_written_byte_by_byte() {
    let text = "\u{e9}\u{4e2d}\u{1f469}\u{200d}\u{1f680}\u{2028}";
    let scripted = Scripted::new(
        "
def on(m):
    data = json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': {'echo': m['params']['text']}}, ensure_ascii=False).encode()
    for byte in data + b'\\n': os.write(1, bytes([byte]))
serve(on)",
    );
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    let mut exchange = ask(&connection, "tools/call", &format!(r#"{{"text":"{text}"}}"#), CALM);
    let frame = answer(&mut exchange).await.unwrap();
    assert_eq!(frame.result_member("echo"), Some(format!("\"{text}\"").as_str()));
    upstream.stop().await;
}

#[tokio::test]
async fn a_server_that_echoes_ids_as_strings_works() {
    let scripted =
        Scripted::new("serve(lambda m: send({'jsonrpc': '2.0', 'id': str(m['id']), 'result': {'ok': 1}}))");
    let upstream = scripted.start();
    assert_eq!(call(&upstream.connection().await.unwrap(), "tools/list", "ok").await, "1");
    upstream.stop().await;
}

#[tokio::test]
async fn a_line_over_the_cap_ends_that_process_only() {
    let script = "
def on(m):
    if m['method'] == 'flood':
        while True: raw(b'x' * 65536)
    result(m, {'ok': 1})
serve(on)";
    let mut flooding = Scripted::new(script);
    flooding.spec.line_cap = 1 << 20;
    let calm = Scripted::new(script);
    let (flooded, other) = (flooding.start(), calm.start());
    let connection = flooded.connection().await.unwrap();
    let error = answer(&mut ask(&connection, "flood", "{}", CALM)).await.unwrap_err();
    let why = "it wrote a line of more than 1048576 bytes".into();
    assert_eq!(error, UpstreamError::Exited { why, sent: true });
    assert!(flooding.down().await.contains("more than 1048576 bytes"));
    assert_eq!(call(&other.connection().await.unwrap(), "tools/list", "ok").await, "1");
    assert_eq!(call(&flooded.connection().await.unwrap(), "tools/list", "ok").await, "1");
    flooded.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_calls_in_both_directions_do_not_block_each_other() {
    const SIZE: usize = 1 << 20;
    let scripted = Scripted::new("serve(lambda m: result(m, {'text': m['params']['text']}))");
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    let mut calls = JoinSet::new();
    for n in 0..64_u8 {
        let connection = Arc::clone(&connection);
        calls.spawn(async move {
            let text = char::from(b'0' + n).to_string().replace(['"', '\\'], "-").repeat(SIZE);
            let mut exchange = ask(&connection, "tools/call", &format!(r#"{{"text":"{text}"}}"#), CALM);
            let frame = answer(&mut exchange).await.unwrap();
            frame.result_member("text") == Some(format!("\"{text}\"").as_str())
        });
    }
    let all = timeout(LONG, calls.join_all()).await.expect("a deadlock");
    assert!(all.iter().all(|equal| *equal) && all.len() == 64);
    upstream.stop().await;
}

#[tokio::test]
async fn a_server_that_does_not_read_costs_bounded_memory_and_nobody_else() {
    let mut deaf = Scripted::new("def on(m): notify('notifications/asleep'); signal.pause()\nserve(on)");
    deaf.spec.patience.eof_grace = Duration::from_millis(50);
    let healthy = Scripted::new("serve()");
    let (upstream, other) = (deaf.start(), healthy.start());
    let connection = upstream.connection().await.unwrap();
    let line = Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","method":"x","params":{{"y":"{}"}}}}"#,
        "y".repeat(1 << 20)
    ));
    // The first call puts it to sleep; then its pipe and our queue fill.
    let brief = Wait { first: Duration::from_millis(300), most: LONG, progress: false };
    let mut sent = ask(&connection, "sleep", "{}", brief);
    while !matches!(deaf.notice().await, What::Notification(_)) {}
    let told = (0..1000).take_while(|_| connection.tell(line.clone()).is_ok()).count();
    assert!((90..=100).contains(&told), "{told}");
    let refused = connection.send(&|_| line.clone(), brief).err();
    assert_eq!(refused, Some(UpstreamError::Busy));
    assert_eq!(answer(&mut sent).await.unwrap_err(), UpstreamError::TimedOut { sent: true });
    let other_connection = other.connection().await.unwrap();
    assert_ne!(call(&other_connection, "tools/list", "pid").await, "");
    // Nothing comes back, not even for a ping: it counts as hung.
    assert!(timeout(LONG, deaf.down()).await.unwrap().contains("stopped answering"));
    upstream.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn stderr_is_drained_and_is_no_failure() {
    let scripted = Scripted::new(
        "
def on(m):
    for _ in range(160): os.write(2, (b'x' * 1023 + b'\\n') * 64)
    os.write(2, b'y' * 1000000)
    result(m, {'ok': 1})
serve(on)",
    );
    let upstream = scripted.start();
    assert_eq!(call(&upstream.connection().await.unwrap(), "tools/list", "ok").await, "1");
    upstream.stop().await;
    assert!(upstream.counters().stderr_dropped.load(Ordering::Relaxed) > 10_000);
}

#[tokio::test]
async fn the_server_sees_a_clean_environment_its_arguments_and_its_directory() {
    let mut scripted = Scripted::new(
        "serve(lambda m: result(m, {'env': dict(os.environ), 'args': sys.argv[1:], 'cwd': os.getcwd(), 'core': __import__('resource').getrlimit(4)}))",
    );
    scripted.launch().args.extend(["$HOME; `id`".to_owned(), "a\nb".to_owned()]);
    let given = [("GIVEN", "yes"), ("LANG", "C.UTF-8")];
    scripted.launch().env.extend(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let home = scripted.path().canonicalize().unwrap();
    scripted.launch().dir = Some(home);
    let upstream = scripted.start();
    let frame = answer(&mut ask(&upstream.connection().await.unwrap(), "x", "{}", CALM)).await.unwrap();
    let seen: serde_json::Value = serde_json::from_str(frame.result().unwrap()).unwrap();
    let names: BTreeSet<&str> = seen["env"].as_object().unwrap().keys().map(String::as_str).collect();
    // Cargo gives this test many variables of its own.
    let allowed = BTreeSet::from_iter(super::INHERITED.into_iter().chain(["GIVEN", "LC_CTYPE"]));
    assert!(names.is_subset(&allowed), "{names:?}");
    assert!(names.contains("PATH") && seen["env"]["GIVEN"] == "yes" && seen["env"]["LANG"] == "C.UTF-8");
    assert_eq!(seen["args"], serde_json::json!(["$HOME; `id`", "a\nb"]));
    assert_eq!(seen["cwd"], scripted.path().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(seen["core"], serde_json::json!([0, 0]));
    upstream.stop().await;
}

/// How a server takes being stopped, whether it needs a signal, and how long that may take in milliseconds.
const LADDER: [(&str, &str, &[&str]); 4] = [
    ("leaves on the end of stdin", "serve(); note('eof')", &["eof"]),
    (
        "needs SIGTERM",
        "signal.signal(signal.SIGTERM, lambda *_: (note('term'), os._exit(0)))\nserve(); note('eof')\nwhile True: signal.pause()",
        &["eof", "term"],
    ),
    (
        "needs SIGKILL",
        "signal.signal(signal.SIGTERM, lambda *_: note('term'))\nserve(); note('eof')\nwhile True: signal.pause()",
        &["eof", "term"],
    ),
    (
        "stops its own supervisor",
        "os.kill(os.getppid(), signal.SIGSTOP)\nserve(); note('eof')\nwhile True: signal.pause()",
        &["eof"],
    ),
];

#[tokio::test]
async fn the_ladder_goes_as_far_as_it_must() {
    for (what, script, seen) in LADDER {
        let mut scripted = Scripted::new(script);
        scripted.spec.patience.eof_grace = Duration::from_secs(2);
        scripted.spec.patience.term_grace = Duration::from_secs(2);
        let upstream = scripted.start();
        let connection = upstream.connection().await.unwrap();
        let server: i32 = call(&connection, "x", "pid").await.parse().unwrap();
        let supervisor = i32::try_from(connection.pid()).unwrap();
        let mut held = ask(&connection, "y", "{}", CALM);
        answer(&mut held).await.unwrap();
        upstream.stop().await;
        let journal = scripted.journal();
        let after = journal.iter().position(|line| line == "y").unwrap() + 1;
        assert_eq!(journal[after..], *seen, "{what}");
        for pid in [supervisor, server] {
            assert!(is_gone(pid), "{what}: {pid}");
        }
        assert!(matches!(connection.tell(Bytes::from_static(b"{}")), Err(UpstreamError::NotRunning { .. })));
    }
}

/// Gone, or dead and waiting for whoever inherited it.
fn is_gone(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |stat| stat.rsplit_once(')').is_some_and(|(_, after)| after.starts_with(" Z")))
}

#[tokio::test]
async fn calls_in_flight_fail_when_it_is_stopped() {
    let scripted = Scripted::new("serve(lambda m: None)");
    let upstream = scripted.start();
    let connection: Arc<Connection> = upstream.connection().await.unwrap();
    let mut held = ask(&connection, "hold", "{}", CALM);
    let began = Instant::now();
    let (error, ()) = tokio::join!(answer(&mut held), upstream.stop());
    assert!(matches!(error.unwrap_err(), UpstreamError::Exited { .. }));
    assert!(began.elapsed() < Duration::from_secs(5));
}
