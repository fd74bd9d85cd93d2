//! Reading keys: from files, and from servers that are slow, large, wrong or gone.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use upstream::egress::{EgressError, client};

use super::{BETWEEN, Jwks, JwksError, KeysError, LARGEST, Origin, REFRESH, RETRY, STALE};

const SET: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
const OTHER: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"b","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// A server with one answer at a time.
struct Server {
    address: SocketAddr,
    answer: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

impl Server {
    async fn start(answer: &str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (answer, asked) = (Arc::new(Mutex::new(Some(answer.to_owned()))), Arc::new(AtomicUsize::new(0)));
        let (said, count) = (Arc::clone(&answer), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let said = said.lock().unwrap().clone();
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    let _ = stream.read(&mut request).await;
                    match said {
                        Some(answer) => drop(stream.write_all(answer.as_bytes()).await),
                        // Says nothing until the other side has had enough.
                        None => drop(stream.read(&mut request).await),
                    }
                });
            }
        });
        Server { address, answer, asked }
    }

    fn says(&self, answer: Option<&str>) {
        *self.answer.lock().unwrap() = answer.map(str::to_owned);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn jwks(&self) -> Arc<Jwks> {
        let url = format!("http://{}/jwks", self.address).parse().unwrap();
        Arc::new(Jwks::new("https://id.example".into(), Origin::Url(url, client().unwrap())))
    }
}

#[tokio::test]
async fn keys_are_read_over_http_and_told_apart_by_edition() {
    let server = Server::start(&ok(SET)).await;
    let jwks = server.jwks();
    assert!(jwks.held().is_none());
    jwks.read().await.unwrap();
    assert_eq!(jwks.held().unwrap().edition, 0);
    jwks.read().await.unwrap();
    assert_eq!(jwks.held().unwrap().edition, 0, "the same text is the same edition");
    server.says(Some(&ok(OTHER)));
    jwks.read().await.unwrap();
    let held = jwks.held().unwrap();
    assert!(held.edition == 1 && held.keys.has("b") && !held.keys.has("a"));
}

#[tokio::test]
async fn what_is_no_key_set_changes_nothing() {
    let server = Server::start(&ok(SET)).await;
    let jwks = server.jwks();
    jwks.read().await.unwrap();
    let large = ok(&format!("{SET}{}", " ".repeat(LARGEST)));
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
        LARGEST + 1,
        " ".repeat(LARGEST + 1)
    );
    for (answer, expected) in [
        ("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "status 500"),
        (
            "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
            "status 302",
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", "status 204"),
        (&ok("<html></html>"), "no JWK set"),
        (&ok("{\"keys\":[]}"), "no key that can"),
        (&ok("{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}]}"), "no key that can"),
        (&ok("{\"keys\":{}}"), "no JWK set"),
        (&ok(&format!("{SET}{SET}")), "no JWK set"),
        (&large, "larger than"),
        (&chunked, "larger than"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{", "cannot be reached"),
        ("garbage\r\n\r\n", "cannot be reached"),
        ("", "cannot be reached"),
    ] {
        server.says(Some(answer));
        let error = jwks.read().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{answer:.60}: {error}");
        let held = jwks.held().unwrap();
        assert!(held.edition == 0 && held.keys.has("a"), "{answer:.60}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left_after_a_while() {
    let server = Server::start("").await;
    server.says(None);
    let jwks = server.jwks();
    let began = std::time::Instant::now();
    // Time is paused once the connection stands, so that nobody really waits.
    tokio::time::pause();
    let error = jwks.read().await.unwrap_err();
    assert!(matches!(error, JwksError::Egress(EgressError::Slow)), "{error}");
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_file_is_read_at_start_and_errors_name_no_content() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("jwks.json");
    let jwks = Jwks::new("https://id.example".into(), Origin::File(file.clone()));
    assert!(matches!(jwks.prime(), Err(JwksError::File(_))));
    std::fs::write(&file, SET).unwrap();
    jwks.prime().unwrap();
    for (text, expected) in [("secret-marker", KeysError::NotAKeySet), ("{\"keys\":[]}", KeysError::NoKey)] {
        std::fs::write(&file, text).unwrap();
        let error = jwks.prime().unwrap_err();
        assert!(matches!(&error, JwksError::Keys(why) if *why == expected));
        assert!(!error.to_string().contains("marker"));
    }
    std::fs::write(&file, " ".repeat(LARGEST + 1)).unwrap();
    assert!(matches!(jwks.prime(), Err(JwksError::Egress(EgressError::TooLarge))));
    assert!(jwks.held().unwrap().keys.has("a"));
}

/// A file as origin, so that the clock can be paused: no sockets are waited for.
#[tokio::test(start_paused = true)]
async fn wishes_cause_one_reading_in_half_a_minute_and_never_a_second_at_once() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("jwks.json");
    std::fs::write(&file, SET).unwrap();
    let jwks = Arc::new(Jwks::new("https://id.example".into(), Origin::File(file.clone())));
    let watch = tokio::spawn(Arc::clone(&jwks).watch());
    let mut readings = jwks.readings.subscribe();
    readings.changed().await.unwrap();
    assert_eq!(*readings.borrow(), 1);
    tokio::task::yield_now().await;
    assert!(jwks.fresher().await, "a key may be new since the start");
    for _ in 0..1000 {
        assert!(!jwks.fresher().await, "too early");
    }
    tokio::time::advance(BETWEEN).await;
    tokio::task::yield_now().await;
    std::fs::write(&file, OTHER).unwrap();
    let all = futures_util::future::join_all((0..100).map(|_| jwks.fresher())).await;
    assert!(all.iter().any(|fresh| *fresh));
    assert!(jwks.held().unwrap().keys.has("b"));
    assert_eq!(*jwks.readings.borrow(), 3);
    watch.abort();
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_survived_for_a_day_and_not_longer() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("jwks.json");
    std::fs::write(&file, SET).unwrap();
    let jwks = Arc::new(Jwks::new("https://id.example".into(), Origin::File(file.clone())));
    jwks.prime().unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut well = true;
    for (later, left) in [(Duration::ZERO, true), (STALE, true), (Duration::from_secs(1), false)] {
        tokio::time::advance(later).await;
        let done = jwks.read().await;
        well = jwks.report(done, well);
        assert!(!well);
        assert_eq!(jwks.held().is_some(), left, "{later:?}");
    }
    std::fs::write(&file, SET).unwrap();
    let done = jwks.read().await;
    assert!(jwks.report(done, well) && jwks.held().is_some());
}

#[tokio::test(start_paused = true)]
async fn without_any_keys_it_is_tried_again_soon() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("jwks.json");
    let jwks = Arc::new(Jwks::new("https://id.example".into(), Origin::File(file.clone())));
    let watch = tokio::spawn(Arc::clone(&jwks).watch());
    let mut readings = jwks.readings.subscribe();
    readings.changed().await.unwrap();
    std::fs::write(&file, SET).unwrap();
    let began = tokio::time::Instant::now();
    readings.changed().await.unwrap();
    assert!((RETRY..RETRY + Duration::from_secs(1)).contains(&began.elapsed()));
    assert!(jwks.held().is_some());
    readings.changed().await.unwrap();
    assert!(began.elapsed() >= REFRESH);
    watch.abort();
}

#[tokio::test]
async fn one_server_is_asked_once_however_many_wait() {
    let server = Server::start(&ok(SET)).await;
    let jwks = server.jwks();
    let watch = tokio::spawn(Arc::clone(&jwks).watch());
    let mut readings = jwks.readings.subscribe();
    readings.changed().await.unwrap();
    let all = futures_util::future::join_all((0..100).map(|_| jwks.fresher())).await;
    assert!(all.iter().any(|fresh| *fresh));
    let more = futures_util::future::join_all((0..100).map(|_| jwks.fresher())).await;
    assert!(more.iter().all(|fresh| !fresh));
    assert_eq!(server.asked(), 2);
    watch.abort();
}

#[test]
fn an_edition_is_never_given_twice() {
    let jwks = Jwks::new("https://id.example".into(), Origin::File("none".into()));
    let edition = || jwks.held().expect("keys").edition;
    let keys = |kid: &str| {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{kid}","x":"{x}"}}]}}"#)
    };
    jwks.hold(keys("a").as_bytes()).expect("holds");
    let first = edition();
    jwks.hold(keys("a").as_bytes()).expect("holds");
    assert_eq!(edition(), first, "the same keys are the same edition");
    // Too old to be believed, and then other keys: nothing verified before may come back.
    jwks.held.store(None);
    jwks.hold(keys("b").as_bytes()).expect("holds");
    assert_ne!(edition(), first);
}
