//! Tests: which heads come in, and as what.

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::*;
use crate::listen::{self, Site, Stop, Terms};

#[test]
fn a_path_names_an_endpoint_with_or_without_a_final_slash() {
    let named = |path: &str| addressed(path).map(|(endpoint, _)| (endpoint.tenant, endpoint.server));
    let some = |text: &str| Some(text.into());
    let parts = [
        ("mcp", Part::Mcp, Transport::Streamable),
        ("sse", Part::Sse, Transport::Sse),
        ("messages", Part::Messages, Transport::Sse),
    ];
    for (word, part, transport) in parts {
        for path in ["/mcp", "/mcp/ops/", "/t/acme/mcp/", "/t/acme/mcp/ops"] {
            let (endpoint, found) = addressed(&path.replace("mcp", word)).unwrap();
            assert_eq!((found, endpoint.transport), (part, transport), "{path}");
            let same = addressed(path).unwrap().0;
            assert_eq!((endpoint.tenant, endpoint.server), (same.tenant, same.server), "{path}");
        }
    }
    for (path, expected) in [
        ("/mcp", Some((None, None))),
        ("/mcp/", Some((None, None))),
        ("/mcp/ops", Some((None, some("ops")))),
        ("/mcp/ops/", Some((None, some("ops")))),
        ("/t/acme/mcp", Some((some("acme"), None))),
        ("/t/acme/mcp/", Some((some("acme"), None))),
        ("/t/acme/mcp/ops/", Some((some("acme"), some("ops")))),
    ] {
        assert_eq!(named(path), expected, "{path}");
    }
    for path in [
        "",
        "*",
        "/",
        "/mcp//",
        "//mcp",
        "/MCP",
        "/mcp/a/b",
        "/t/mcp",
        "/t//mcp",
        "/t/acme",
        "/%6dcp",
        "/x/../mcp",
        "/mcp;x",
        "/sse/a/b",
        "/sse/mcp/ops/x",
        "/t/sse",
    ] {
        assert_eq!(named(path), None, "{path}");
    }
}

#[test]
fn a_verb_that_does_not_exist_is_told_which_do() {
    let strange = [Method::PUT, Method::HEAD, Method::OPTIONS, Method::PATCH];
    for (part, allowed, others) in [
        (Part::Mcp, "GET, POST, DELETE", &[][..]),
        (Part::Sse, "GET", &[Method::POST, Method::DELETE]),
        (Part::Messages, "POST", &[Method::GET, Method::DELETE]),
    ] {
        for method in strange.iter().chain(others) {
            let response = Response::<Body>::from(verb(method, part).unwrap_err());
            assert_eq!(response.status(), 405, "{method}");
            assert_eq!(response.headers()["allow"], allowed);
            assert_eq!(response.headers()["content-type"], "application/json");
        }
    }
}

#[test]
fn a_header_is_sent_once_and_empty_means_none() {
    let headers = |values: &[&str]| -> HeaderMap {
        values.iter().map(|value| (REVISION, value.parse().unwrap())).collect()
    };
    let read = |values: &[&str]| text(&headers(values), &REVISION).map_err(|refusal| refusal.status());
    assert_eq!(read(&[]), Ok(None));
    assert_eq!(read(&[""]), Ok(None));
    assert_eq!(read(&["2025-11-25"]), Ok(Some("2025-11-25".into())));
    assert_eq!(read(&["2025-11-25", "2025-11-25"]), Err(400));
}

#[test]
fn what_repeats_the_body_is_passed_on_as_it_is_and_only_once() {
    let headers = |fields: &[(&'static str, &str)]| -> HeaderMap {
        let fields = fields.iter();
        fields.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    };
    let sent = headers(&[
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?YQ==?="),
        ("mcp-param-region", ""),
        ("mcp-paramount", "x"),
    ]);
    let read = mirrored(&sent);
    assert_eq!(read.method.as_deref(), Some("tools/call"));
    assert_eq!(read.name.as_deref(), Some("=?base64?YQ==?="));
    assert_eq!(read.params, [("region".into(), "".into())]);
    for name in ["mcp-method", "mcp-name", "mcp-param-region"] {
        let read = mirrored(&headers(&[(name, "a"), (name, "a")]));
        assert_eq!(read.repeated.as_deref(), Some(name));
    }
    let twice = headers(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]);
    assert_eq!(texts(&twice, &header::AUTHORIZATION), ["Bearer a".into(), "Bearer b".into()]);
}

/// Tells what came through the door.
struct Told(Door);

impl Site for Told {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, ends: Ends) -> Response<Body> {
        let told = match self.0.open(request, ends) {
            Ok((_, Ok(Asked::Serve(arrival, ..)))) => {
                let body = arrival.body.await;
                format!("{:?} {body:?}", arrival.head)
            }
            Ok((_, Ok(Asked::Metadata(endpoint)))) => format!("{endpoint:?}"),
            Ok((_, Ok(Asked::Keys))) => "keys".to_owned(),
            Ok((_, Ok(Asked::Preflight(response)))) => return response,
            Ok((_, Err(refusal))) | Err(refusal) => return refusal.into(),
        };
        Response::new(crate::transport::body::text(told))
    }
}

async fn start() -> SocketAddr {
    let folder = tempfile::tempdir().unwrap();
    let main = folder.path().join("portcullis.yaml");
    fs::create_dir(folder.path().join("tenants")).unwrap();
    fs::write(
        &main,
        "tenants: tenants/*.yaml\nlimits: { body: 1KiB }\nallowed_origins: [https://app.example]\n",
    )
    .unwrap();
    let tenant = "tenant: a\nupstreams:\n  one: { command: sh, trust: trusted }\n";
    fs::write(folder.path().join("tenants/a.yaml"), tenant).unwrap();
    let config = crate::cli::load(&main).unwrap().config;
    let listener = listen::bind("127.0.0.1:0".parse().unwrap(), "`listen`").await.unwrap();
    let address = listener.local_addr().unwrap();
    let site = Arc::new(Told(Door::new(&config)));
    tokio::spawn(listen::serve(listener, site, Terms::plain(100), Stop::default()));
    address
}

/// Sends bytes, and reads until the other side closes.
async fn say(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // It may have heard enough before the end.
    let _ = stream.write_all(bytes).await;
    let mut said = Vec::new();
    let end = timeout(Duration::from_secs(30), stream.read_to_end(&mut said)).await;
    let said = String::from_utf8(said).unwrap();
    assert!(end.is_ok(), "the connection stays open: {said}");
    said
}

const HEAD: &str =
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Type: application/json\r\n";
const SECOND: &str = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nX-Second: 1\r\n\r\n";

#[tokio::test]
async fn a_request_that_hides_another_gets_one_answer_and_the_connection_ends() {
    let address = start().await;
    for (rest, status) in [
        ("Transfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n0\r\n\r\n", 400),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n0\r\n\r\n", 400),
        ("Transfer-Encoding: cow\r\n\r\n0\r\n\r\n", 501),
        ("Content-Length: 0\r\nContent-Length: 60\r\n\r\n", 400),
        ("Content-Length: 0, 60\r\n\r\n", 400),
        ("Content-Length: 0x0\r\n\r\n", 400),
        ("X: 1\r\n Content-Length: 60\r\n\r\n", 400),
        ("X: 1\nContent-Length: 60\r\n\r\n", 400),
        ("Content-Length: 99999999999999999999\r\n\r\n", 413),
        ("Content-Length: 2000\r\n\r\n", 413),
        ("Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n", 413),
        ("Expect: everything\r\nContent-Length: 2\r\n\r\n{}", 417),
    ] {
        let said = say(address, format!("{HEAD}{rest}{SECOND}").as_bytes()).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{rest:?}: {said}");
        assert_eq!(said.matches("HTTP/1.1").count(), 1, "{rest:?}: {said}");
    }
}

#[tokio::test]
async fn a_chunked_body_that_is_broken_ends_there() {
    let address = start().await;
    for body in ["zz\r\n", "2\n{}\r\n0\r\n\r\n", "2 x\r\n{}\r\n0\r\n\r\n", "2\r\n{}{}\r\n0\r\n\r\n"] {
        let sent = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{body}{SECOND}");
        let said = say(address, sent.as_bytes()).await;
        assert!(said.contains("Err(Broken)"), "{body:?}: {said}");
        assert_eq!(said.matches("HTTP/1.1").count(), 1, "{body:?}: {said}");
    }
    let endless = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{}", "5\r\nabcde\r\n".repeat(1000));
    let said = say(address, endless.as_bytes()).await;
    assert!(said.contains("Err(TooLarge"), "{said}");
    let trailers = format!(
        "{HEAD}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{{}}\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    );
    let said = say(address, trailers.as_bytes()).await;
    assert!(said.contains("Ok(b\"{}\")") && said.contains("authorization: 0 hidden"), "{said}");
}

#[tokio::test]
async fn the_same_request_is_refused_for_what_its_head_says() {
    let address = start().await;
    let long = "a".repeat(40_000);
    let many = "X: y\r\n".repeat(101);
    for (head, status) in [
        ("POST /mcp HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".to_owned(), 400),
        ("POST /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), 403),
        ("POST /mcp HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n\r\n".to_owned(), 403),
        ("POST /mcp HTTP/1.1\r\nHost: me@localhost\r\n\r\n".to_owned(), 400),
        ("POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 400),
        ("POST http://evil.example/mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), 403),
        ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n".to_owned(), 404),
        ("TRACE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 405),
        (format!("{HEAD}Origin: null\r\n\r\n"), 403),
        (format!("{HEAD}Origin: https://app.example.evil.example\r\n\r\n"), 403),
        (format!("{HEAD}Origin: https://app.example@evil.example\r\n\r\n"), 403),
        (format!("{HEAD}Origin: https://app.example\r\nOrigin: https://app.example\r\n\r\n"), 400),
        ("GET /mcp/../status HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        ("GET /mcp/%2e%2e/status HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        ("GET /mcp;x=/status HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        ("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        ("POST /admin/v1/keys HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 404),
        ("POST /mcp HTTP/1.0\r\nHost: localhost\r\n\r\n".to_owned(), 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
        (format!("{HEAD}Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n\r\n"), 400),
        (format!("{HEAD}MCP-Protocol-Version: 2026-07-28\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n"), 400),
        (format!("{HEAD}Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"), 415),
        (format!("{HEAD}X: {long}\r\n\r\n"), 431),
        (format!("{HEAD}{many}\r\n"), 431),
        (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), 414),
        (format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", long.get(..9000).unwrap()), 414),
    ] {
        let said =
            say(address, head.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1).as_bytes()).await;
        let shown: String = head.chars().take(300).collect();
        assert_eq!(said.get(8..13), Some(format!(" {status} ").as_str()), "{shown:?}: {said}");
        assert_eq!(said.matches("content-length").count(), 1, "{shown:?}: {said}");
    }
}

#[tokio::test]
async fn what_a_head_says_is_passed_on_as_it_was_sent() {
    let address = start().await;
    let sent = format!(
        "{HEAD}Authorization: Bearer a\r\nauthorization:  Basic b \r\nMcp-Method: tools/call\r\nMCP-Name: =?base64?YQ==?=\r\nMcp-Param-Region: eu\r\nCookie: admin=1\r\nX-Forwarded-For: 198.51.100.7\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    let sent = sent.replace("POST /mcp ", "POST /mcp/ops?access_token=CANARY ");
    let said = say(address, sent.as_bytes()).await;
    for part in [
        "authorization: 2 hidden",
        r#"method: Some("tools/call")"#,
        r#"name: Some("=?base64?YQ==?=")"#,
        r#"params: [("region", "eu")]"#,
        r#"server: Some("ops")"#,
        "peer: 127.0.0.1:",
        r#"Ok(b"{}")"#,
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("CANARY") && !said.contains("admin=1"), "{said}");
}

#[tokio::test]
async fn a_preflight_is_answered_for_a_listed_origin_only() {
    let address = start().await;
    let ask = |origin: &str| {
        format!(
            "OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
        )
    };
    let said = say(address, ask("https://app.example").as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 204 "), "{said}");
    let said = say(address, ask("https://evil.example").as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 403 ") && !said.contains("access-control"), "{said}");
}

#[tokio::test]
async fn the_document_of_an_endpoint_has_its_path() {
    let address = start().await;
    for (verb, path, part) in [
        ("GET", "/mcp", "server: None"),
        ("GET", "/t/acme/mcp/ops", "tenant: Some(\"acme\"), server: Some(\"ops\")"),
        ("GET", "", "404 Not Found"),
        ("GET", "/other", "404 Not Found"),
        ("POST", "/mcp", "405 Method Not Allowed"),
    ] {
        let sent =
            format!("{verb} {WELL_KNOWN}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let said = say(address, sent.as_bytes()).await;
        assert!(said.contains(part), "{verb} {path}: {said}");
    }
}
