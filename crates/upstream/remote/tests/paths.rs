//! Tests: how we get there: TLS with its certificates, proxies, and connections that fail.

use crate::fake::{Accept, Asked, Fake, fine, legacy, read_request};
use crate::scripted::{LONG, call};
use crate::{Address, Credential, UpstreamError};
use futures_util::future::BoxFuture;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use url::Url;

/// A certificate authority of the test's own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: Vec<u8>,
}

/// A certificate and its key.
type Identity = (Vec<u8>, Vec<u8>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn certify(&self, name: &str, years: std::ops::Range<i32>) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem().into_bytes(), key.serialize_pem().into_bytes())
    }

    /// A server over TLS; it may want to know who we are.
    async fn server(&self, (certificate, key): &Identity, asks_who: bool) -> Fake {
        let certificates = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if asks_who {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(&self.pem).unwrap()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let config =
            builder.with_single_cert(certificates, PrivateKeyDer::from_pem_slice(key).unwrap()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let accept: Accept<TlsStream<TcpStream>> = Arc::new(move |tcp| {
            let acceptor = acceptor.clone();
            Box::pin(async move { acceptor.accept(tcp).await })
        });
        Fake::over("https", accept, legacy(fine)).await
    }
}

const VALID: std::ops::Range<i32> = 2020..2090;

async fn works(fake: &Fake) {
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    assert_eq!(call(&connection, "tools/list", "ok").await, "1");
    upstream.stop().await;
}

async fn fails(fake: &Fake) -> UpstreamError {
    let upstream = fake.start();
    let error = upstream.connection().await.unwrap_err();
    upstream.stop().await;
    assert!(fake.journal().is_empty(), "and nothing was sent");
    error
}

#[tokio::test]
async fn a_server_is_trusted_by_the_authority_that_the_operator_names() {
    let authority = Authority::new("ours");
    let mut fake = authority.server(&authority.certify("localhost", VALID), false).await;
    fake.address().ca = Some(authority.pem.clone());
    works(&fake).await;
}

#[tokio::test]
async fn a_certificate_that_proves_nothing_ends_it_and_http_is_no_way_out() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let cases = [
        ("localhost", VALID, &other, "TLS: its certificate is from an authority we do not know"),
        ("elsewhere.example", VALID, &authority, "TLS: its certificate is for another host"),
        ("localhost", 2020..2021, &authority, "TLS: its certificate has expired"),
    ];
    for (name, years, trusted, want) in cases {
        let mut fake = authority.server(&authority.certify(name, years), false).await;
        fake.address().ca = Some(trusted.pem.clone());
        assert_eq!(fails(&fake).await, UpstreamError::not_running(want));
    }
    let mut plain = Fake::new(legacy(fine)).await;
    plain.address().url.set_scheme("https").unwrap();
    assert_eq!(fails(&plain).await, UpstreamError::not_running("the TLS handshake failed"));
}

#[tokio::test]
async fn we_show_who_we_are_where_that_is_asked_for() {
    let authority = Authority::new("ours");
    let mut fake = authority.server(&authority.certify("localhost", VALID), true).await;
    fake.address().ca = Some(authority.pem.clone());
    assert!(matches!(fails(&fake).await, UpstreamError::NotRunning { .. } | UpstreamError::Exited { .. }));
    fake.address().client_certificate = Some(authority.certify("us", VALID));
    works(&fake).await;
}

#[tokio::test]
async fn certificates_that_cannot_be_used_say_so() {
    let authority = Authority::new("ours");
    let (mine, other) = (authority.certify("us", VALID), authority.certify("them", VALID));
    type Break = Box<dyn Fn(&mut Address)>;
    let cases: [(Break, &str); 4] = [
        (
            Box::new(|address| address.ca = Some(b"nonsense".to_vec())),
            "the certificate authority is no PEM certificate",
        ),
        (
            Box::new(|address| address.client_certificate = Some((Vec::new(), Vec::new()))),
            "the client certificate is no PEM certificate",
        ),
        (
            Box::new({
                let mine = mine.clone();
                move |address| address.client_certificate = Some((mine.0.clone(), Vec::new()))
            }),
            "the key of the client certificate is no PEM key",
        ),
        (
            Box::new(move |address| address.client_certificate = Some((mine.0.clone(), other.1.clone()))),
            "the client certificate and its key do not belong together",
        ),
    ];
    for (spoil, want) in cases {
        let mut fake = authority.server(&authority.certify("localhost", VALID), false).await;
        spoil(fake.address());
        assert_eq!(fails(&fake).await, UpstreamError::not_running(want));
    }
}

/// A proxy that connects to where it is asked to, and notes what it was asked.
async fn proxy(refuses: Option<u16>) -> (Url, Arc<Mutex<Vec<Asked>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://localhost:{}", listener.local_addr().unwrap().port()).parse().unwrap();
    let seen = Arc::<Mutex<Vec<Asked>>>::default();
    let noted = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let noted = Arc::clone(&noted);
            tokio::spawn(async move {
                let Some(asked) = read_request(&mut tcp).await else { return };
                let to = asked.target.clone();
                noted.lock().unwrap().push(asked);
                if let Some(status) = refuses {
                    return tcp.write_all(format!("HTTP/1.1 {status} No\r\n\r\n").as_bytes()).await.unwrap();
                }
                let mut far = TcpStream::connect(to).await.unwrap();
                tcp.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
                let _closed = tokio::io::copy_bidirectional(&mut tcp, &mut far).await;
            });
        }
    });
    (url, seen)
}

#[tokio::test]
async fn https_goes_through_a_proxy_that_sees_no_more_than_where_to() {
    let authority = Authority::new("ours");
    let mut fake = authority.server(&authority.certify("localhost", VALID), false).await;
    let (mut url, seen) = proxy(None).await;
    url.set_username("us%er").unwrap();
    url.set_password(Some("p:w")).unwrap();
    fake.address().ca = Some(authority.pem.clone());
    fake.address().credential =
        Credential::headers(vec![("Authorization".to_owned(), "Bearer up-own".to_owned())]);
    fake.address().proxy = Some(url);
    works(&fake).await;
    let port = fake.address().url.port().unwrap();
    for asked in seen.lock().unwrap().iter() {
        assert_eq!(
            (asked.verb.as_str(), asked.target.as_str()),
            ("CONNECT", format!("localhost:{port}").as_str())
        );
        // us%er:p:w
        assert_eq!(asked.header("proxy-authorization"), "Basic dXMlZXI6cDp3");
        assert_eq!(asked.header("authorization"), "");
    }
    for asked in fake.journal() {
        assert_eq!(
            (asked.header("authorization"), asked.header("proxy-authorization")),
            ("Bearer up-own", "")
        );
        assert_eq!(asked.target, "/mcp");
    }
}

#[tokio::test]
async fn http_is_forwarded_by_a_proxy_that_is_told_the_whole_url() {
    // The server plays the proxy.
    let mut fake = Fake::new(legacy(fine)).await;
    let mut proxy = fake.address().url.clone();
    proxy.set_username("user").unwrap();
    fake.address().proxy = Some(proxy);
    fake.address().url = Url::parse("http://upstream.invalid/mcp?x=1").unwrap();
    works(&fake).await;
    for asked in fake.journal() {
        assert_eq!(asked.target, "http://upstream.invalid/mcp?x=1");
        assert_eq!(
            (asked.header("host"), asked.header("proxy-authorization")),
            ("upstream.invalid", "Basic dXNlcjo=")
        );
    }
}

#[tokio::test]
async fn connections_that_fail_say_why_and_name_no_host() {
    let refused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let (shy, _) = proxy(Some(407)).await;
    let (unwilling, _) = proxy(Some(502)).await;
    let refused = format!("http://localhost:{refused}/");
    let cases = [
        (refused.as_str(), None, "it refuses connections"),
        ("http://nowhere.invalid/", None, "it cannot be reached"),
        ("https://nowhere.invalid/", Some(Url::parse(&refused).unwrap()), "the proxy cannot be reached"),
        ("https://nowhere.invalid/", Some(shy), "the proxy does not accept our credential"),
        ("https://nowhere.invalid/", Some(unwilling), "the proxy does not connect us"),
        (
            "https://nowhere.invalid/",
            Some(Url::parse("https://localhost/").unwrap()),
            "the proxy is no http URL",
        ),
    ];
    for (url, proxy, want) in cases {
        let mut fake = Fake::new(legacy(fine)).await;
        fake.address().url = Url::parse(url).unwrap();
        fake.address().proxy = proxy;
        assert_eq!(fails(&fake).await, UpstreamError::not_running(want), "{url}");
    }
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up() {
    let mut fake = Fake::new(|_: Asked| -> BoxFuture<'static, _> { Box::pin(crate::fake::silence()) }).await;
    fake.spec.patience.start = std::time::Duration::from_millis(300);
    let upstream = fake.start();
    assert!(timeout(LONG, fake.down()).await.unwrap().contains("does not answer"));
    assert!(upstream.connection().await.is_err());
    upstream.stop().await;
}
