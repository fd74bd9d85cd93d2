//! Tests: connections from accepting to their end, plain and over TLS.

use config::ServerTls;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::{framing::HEAD_FIELDS, transport::body};

/// Panics, reads a body of at most 10 bytes, answers before it reads, or says hello.
struct Echo;

impl Site for Echo {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, _: Ends) -> Response<Body> {
        let (head, incoming) = request.into_parts();
        match head.uri.path() {
            "/panic" => panic!("on purpose"),
            "/read" => {
                let read = body::Intake::new(10).unread(incoming).0.await;
                Response::new(body::text(format!("{read:?}")))
            }
            "/refuse" => Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too large").into(),
            _ => Response::new(body::text("hello")),
        }
    }
}

async fn start(most: usize) -> (SocketAddr, Stop, JoinHandle<()>) {
    start_on(Terms::plain(most)).await
}

async fn start_on(terms: Terms) -> (SocketAddr, Stop, JoinHandle<()>) {
    let listener = bind("127.0.0.1:0".parse().unwrap(), "`listen`").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Stop::default();
    let serving = tokio::spawn(serve(listener, Arc::new(Echo), terms, stop.clone()));
    (address, stop, serving)
}

/// Sends bytes and reads until the other side has nothing more to say.
async fn talk(stream: &mut TcpStream, sent: &[u8]) -> String {
    stream.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

async fn once(address: SocketAddr, sent: &[u8]) -> String {
    talk(&mut TcpStream::connect(address).await.unwrap(), sent).await
}

/// Asks on a connection that stays open.
async fn greet(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        answer.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_panic_ends_its_own_request_only() {
    let (address, ..) = start(10).await;
    let two = b"GET /panic HTTP/1.1\r\nhost: h\r\n\r\nGET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    let answers = once(address, two).await;
    assert!(answers.starts_with("HTTP/1.1 500 ") && answers.contains("internal error"), "{answers}");
    assert!(!answers.contains("on purpose"), "{answers}");
    assert!(answers.ends_with("hello"), "{answers}");
    assert_eq!(answers.matches("x-content-type-options: nosniff").count(), 2, "{answers}");
}

#[tokio::test]
async fn a_body_is_read_up_to_its_limit() {
    let (address, ..) = start(10).await;
    for (body, expected) in [
        ("content-length: 0\r\n\r\n", "Ok(b\"\")"),
        ("content-length: 10\r\n\r\n0123456789", "Ok(b\"0123456789\")"),
        ("content-length: 11\r\n\r\n01234567890", "Err(TooLarge { limit: 10 })"),
        (
            "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n2\r\ngh\r\n0\r\n\r\n",
            "Ok(b\"abcdefgh\")",
        ),
        ("transfer-encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n", "Err(TooLarge { limit: 10 })"),
        ("transfer-encoding: chunked\r\n\r\nzz\r\n", "Err(Broken)"),
    ] {
        let request = format!("POST /read HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{body}");
        let answer = once(address, request.as_bytes()).await;
        assert!(answer.ends_with(expected), "{body}: {answer}");
    }
}

#[tokio::test]
async fn a_refusal_arrives_although_the_client_is_still_sending() {
    let (address, ..) = start(10).await;
    let mut sent = b"POST /refuse HTTP/1.1\r\nhost: h\r\ncontent-length: 8000000\r\n\r\n".to_vec();
    sent.resize(8_000_000, b' ');
    let answer = once(address, &sent).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_head_has_bounds() {
    let (address, ..) = start(10).await;
    let long = format!("GET / HTTP/1.1\r\nhost: h\r\nx: {}\r\n\r\n", "a".repeat(HEAD_BYTES));
    let many = format!("GET / HTTP/1.1\r\nhost: h\r\n{}\r\n", "x: y\r\n".repeat(HEAD_FIELDS));
    for head in [long, many] {
        let answer = once(address, head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let (address, ..) = start(1).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    greet(&mut first).await;
    let answer = once(address, b"").await;
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("retry-after"), "{answer}");
    assert!(greet(&mut first).await.ends_with("hello"));
}

#[tokio::test]
async fn stopping_refuses_new_connections_first_and_closes_the_others_last() {
    let (address, stop, serving) = start(10).await;
    let mut open = TcpStream::connect(address).await.unwrap();
    let mut unused = TcpStream::connect(address).await.unwrap();
    greet(&mut open).await;
    stop.refuse.cancel();
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(greet(&mut open).await.ends_with("hello"), "an open connection goes on");
    stop.finish.cancel();
    serving.await.unwrap();
    assert_eq!(talk(&mut open, b"").await, "", "it is closed");
    assert_eq!(talk(&mut unused, b"").await, "", "and so is one that was never used");
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let (address, ..) = start(1).await;
    let failure = bind(address, "`listen`").await.unwrap_err().to_string();
    assert!(failure.contains(&address.to_string()) && failure.contains("`listen`"), "{failure}");
}

/// A listener with a certificate of its own, and a client that trusts it and offers these protocols.
async fn start_tls(spoken: Spoken, offered: &[&str]) -> (SocketAddr, TlsConnector) {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = ServerTls { cert: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
    std::fs::write(&files.cert, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let tls = Tls::open(&files, spoken).unwrap();
    let (address, ..) = start_on(Terms { most: 10, spoken, tls: Some(tls), lanes: None }).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.cert).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider);
    let client = client.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut client = client.with_no_client_auth();
    client.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
    (address, TlsConnector::from(Arc::new(client)))
}

async fn shake(address: SocketAddr, connector: &TlsConnector) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").unwrap();
    connector.connect(name, TcpStream::connect(address).await.unwrap()).await
}

/// Asks over HTTP/2: the status and the body.
async fn ask_two<C>(stream: C, path: &str, body: &'static str) -> (u16, String)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request =
        Request::post(format!("http://localhost{path}")).body(Full::new(bytes::Bytes::from(body))).unwrap();
    let response: Response<Incoming> = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_certificate_is_shown_and_the_client_chooses_what_is_spoken() {
    for (spoken, offered, agreed) in [
        (Spoken::One, &["http/1.1"][..], Some("http/1.1")),
        (Spoken::One, &[], None),
        (Spoken::One, &["h2", "http/1.1"], Some("http/1.1")),
        (Spoken::OneOrTwo, &["http/1.1"], Some("http/1.1")),
        (Spoken::OneOrTwo, &["h2", "http/1.1"], Some("h2")),
    ] {
        let (address, connector) = start_tls(spoken, offered).await;
        let mut stream = shake(address, &connector).await.unwrap();
        let got = stream.get_ref().1.alpn_protocol().map(|name| String::from_utf8(name.to_vec()).unwrap());
        assert_eq!(got.as_deref(), agreed, "{spoken:?} {offered:?}");
        if agreed == Some("h2") {
            assert_eq!(ask_two(stream, "/", "").await, (200, "hello".to_owned()));
            continue;
        }
        stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello"), "{answer}");
    }
}

#[tokio::test]
async fn who_does_not_shake_hands_gets_nothing() {
    let (address, connector) = start_tls(Spoken::One, &["h2"]).await;
    assert!(shake(address, &connector).await.is_err(), "no protocol in common");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
}

#[tokio::test]
async fn http_2_is_spoken_within_the_same_bounds_when_it_is_allowed() {
    let terms = Terms { spoken: Spoken::OneOrTwo, ..Terms::plain(10) };
    let (address, stop, serving) = start_on(terms).await;
    let connect = async || TcpStream::connect(address).await.unwrap();
    assert_eq!(ask_two(connect().await, "/", "").await, (200, "hello".to_owned()));
    assert_eq!(ask_two(connect().await, "/read", "0123456789").await.1, "Ok(b\"0123456789\")");
    assert_eq!(ask_two(connect().await, "/read", "0123456789a").await.1, "Err(TooLarge { limit: 10 })");
    assert_eq!(ask_two(connect().await, "/panic", "").await.0, 500);
    assert_eq!(ask_two(connect().await, "/refuse", "").await.0, 413);
    assert!(greet(&mut connect().await).await.ends_with("hello"), "and the old version too");
    stop.refuse.cancel();
    stop.finish.cancel();
    serving.await.unwrap();

    let (address, ..) = start(10).await;
    let answer = once(address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 505 "), "{answer}");
}
