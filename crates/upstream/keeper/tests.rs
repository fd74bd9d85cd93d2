//! Tests: restarts, pauses and the breaker.

use crate::scripted::{CALM, LONG, Scripted, answer, ask, call};
use crate::{Incoming, State, UpstreamError, Wait, What};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, timeout};

#[tokio::test]
async fn a_server_that_dies_at_start_is_told_of_and_asked_again_with_pauses() {
    let mut scripted =
        Scripted::new("print('no \\x1b[31mtoken', os.environ['KEY'], file=sys.stderr); sys.exit(3)");
    scripted.launch().env.push(("KEY".to_owned(), "hunter2-hunter2".to_owned()));
    let began = Instant::now();
    let upstream = scripted.start();
    let refused = upstream.connection().await;
    assert_eq!(refused.unwrap_err(), UpstreamError::not_running("the process exited with status 3"));
    for failures in 1..=3 {
        let why = scripted.down().await;
        assert_eq!(why, "the process exited with status 3; last on stderr: no \\u{1b}[31mtoken ***");
        let State::Waiting { failures: counted, .. } = upstream.state() else { continue };
        assert!(counted == failures || counted == failures + 1, "{counted} {failures}");
    }
    // Probe, no probe, and two more after 250 and 500 ms.
    assert_eq!(scripted.starts(), 4);
    assert!(began.elapsed() >= Duration::from_millis(600));
    assert_eq!(upstream.counters().restarts.load(Ordering::Relaxed), 3);
    let ask = Instant::now();
    assert!(upstream.connection().await.is_err(), "backing off fails at once");
    assert!(ask.elapsed() < Duration::from_secs(1));
    upstream.stop().await;
    assert!(matches!(upstream.state(), State::Stopped));
    assert!(upstream.connection().await.is_err());
}

#[tokio::test]
async fn a_program_that_is_missing_says_so() {
    let mut scripted = Scripted::new("");
    scripted.launch().program = "/nonexistent/server".into();
    let upstream = scripted.start();
    let why = scripted.down().await;
    assert!(why.contains("status 127") && why.contains("cannot start /nonexistent/server"), "{why}");
    let shown = upstream.connection().await.unwrap_err().to_string();
    assert!(!shown.contains("nonexistent"), "{shown}");
    upstream.stop().await;
}

#[tokio::test]
async fn an_exit_fails_calls_in_flight_at_once_and_the_next_call_finds_a_new_process() {
    let mut scripted = Scripted::new(
        "
def on(m):
    if m['method'] == 'die': os._exit(9)
    if m['method'] != 'hold': result(m, {'pid': os.getpid()})
serve(on)",
    );
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    let first = call(&connection, "tools/list", "pid").await;
    let mut held = ask(&connection, "hold", "{}", CALM);
    let mut deadly = ask(&connection, "die", "{}", CALM);
    let began = Instant::now();
    for exchange in [&mut held, &mut deadly] {
        let error = timeout(LONG, answer(exchange)).await.unwrap().unwrap_err();
        assert_eq!(
            error,
            UpstreamError::Exited { why: "the process exited with status 9".into(), sent: true }
        );
    }
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(!connection.is_open());
    let next = upstream.connection().await.unwrap();
    assert_ne!(call(&next, "tools/list", "pid").await, first);
    assert_eq!(scripted.journal().iter().filter(|line| *line == "die").count(), 1, "never repeated");
    assert!(matches!(scripted.notice().await, What::Up(_)));
    assert!(matches!(scripted.notice().await, What::Down { .. }));
    assert!(matches!(scripted.notice().await, What::Up(_)));
    upstream.stop().await;
}

#[tokio::test]
async fn a_hung_server_is_restarted_and_a_slow_one_is_not() {
    // It answers pings or stops doing anything, by what it is told.
    let mut scripted = Scripted::new(
        "
def on(m):
    if m['method'] == 'wedge':
        signal.pause()
    if m['method'] in ('ping', 'tools/list'): result(m, {'pid': os.getpid()})
serve(on)",
    );
    scripted.spec.patience.eof_grace = Duration::from_millis(50);
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    let brief = Wait { first: Duration::from_millis(100), most: LONG, progress: false };
    let slow = answer(&mut ask(&connection, "slow", "{}", brief)).await;
    assert_eq!(slow.unwrap_err(), UpstreamError::TimedOut { sent: true });
    // The ping is written before this call, and so is its answer.
    call(&connection, "tools/list", "pid").await;
    let mut wedged = ask(&connection, "wedge", "{}", brief);
    assert!(answer(&mut wedged).await.is_err());
    let mut other = ask(&connection, "tools/list", "{}", CALM);
    let error = timeout(LONG, answer(&mut other)).await.unwrap().unwrap_err();
    assert_eq!(error, UpstreamError::Exited { why: "it stopped answering".into(), sent: true });
    assert!(scripted.journal().contains(&"ping".to_owned()));
    call(&upstream.connection().await.unwrap(), "tools/list", "pid").await;
    assert_eq!(scripted.starts(), 2);
    upstream.stop().await;
}

#[tokio::test]
async fn a_silent_server_is_waited_for_only_so_long() {
    let mut scripted = Scripted::new("for m in messages(): pass");
    scripted.spec.patience.start = Duration::from_millis(500);
    scripted.spec.patience.probe = Duration::from_millis(100);
    let upstream = scripted.start();
    assert!(matches!(upstream.state(), State::Starting { .. }));
    assert!(matches!(upstream.connection().await, Err(UpstreamError::NotRunning { .. })));
    assert!(scripted.down().await.contains("does not answer initialize"));
    upstream.stop().await;
}

#[tokio::test]
async fn what_the_server_says_unasked_reaches_the_gateway_in_order() {
    let mut scripted = Scripted::new(
        "
def on(m):
    if m.get('method') != 'go': return
    notify('notifications/tools/list_changed')
    send({'jsonrpc': '2.0', 'id': 'q', 'method': 'roots/list'})
    notify('notifications/message', level='info', data='x')
    result(m, {})
serve(on)",
    );
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    answer(&mut ask(&connection, "go", "{}", CALM)).await.unwrap();
    let What::Up(_) = scripted.notice().await else { panic!() };
    let What::Notification(frame) = scripted.notice().await else { panic!() };
    assert_eq!(frame.method_name(), "notifications/tools/list_changed");
    let What::Request(back, frame) = scripted.notice().await else { panic!() };
    assert_eq!((frame.method_name(), frame.id().unwrap().raw()), ("roots/list", "\"q\""));
    back.tell(wire::success(frame.id().unwrap(), r#"{"roots":[]}"#)).unwrap();
    let What::Notification(_) = scripted.notice().await else { panic!() };
    call(&connection, "go", "").await;
    assert!(scripted.journal().contains(&"answer".to_owned()));
    upstream.stop().await;
}

#[tokio::test]
async fn progress_and_cancellation_pass() {
    let scripted = Scripted::new(
        "
def on(m):
    if m['method'] == 'work':
        token = m['params']['_meta']['progressToken']
        for n in range(3): notify('notifications/progress', progressToken=token, progress=n)
    elif m['method'] == 'notifications/cancelled': note('cancelled %d %s' % (m['params']['requestId'], m['params'].get('reason')))
    else: result(m, {})
serve(on)",
    );
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    let build = |id: &wire::Id| {
        let id = id.raw();
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"work","params":{{"_meta":{{"progressToken":{id}}}}}}}"#
        )
        .into()
    };
    let mut exchange = connection.send(&build, CALM).unwrap();
    for n in 0..3 {
        let Incoming::Progress(frame) = timeout(LONG, exchange.next()).await.unwrap() else { panic!() };
        assert_eq!(frame.param("progress"), Some(n.to_string().as_str()));
    }
    exchange.cancel(Some(r#""changed my mind""#));
    let id = exchange.id().raw().to_owned();
    drop(exchange);
    call(&connection, "after", "").await;
    let cancelled: Vec<String> =
        scripted.journal().into_iter().filter(|line| line.starts_with("cancelled")).collect();
    assert_eq!(cancelled, [format!("cancelled {id} changed my mind")]);
    upstream.stop().await;
}
