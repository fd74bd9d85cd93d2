//! What is gone to and what is not.

use super::{Client, Destination, EgressError, LARGEST, Named, Refusal, check, is_public, resolver};
use bytes::Bytes;
use http::Request;
use serde_json::Value;
use std::net::IpAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use url::Url;

const CORPUS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/attacks/corpus/extras/ssrf_urls.jsonl");

fn items() -> Vec<Value> {
    let text = std::fs::read_to_string(CORPUS).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_table_of_urls_is_decided_as_it_says() {
    let mut wrong = Vec::new();
    for item in items() {
        let (url, class) = (item["url"].as_str().unwrap(), item["class"].as_str().unwrap());
        if class == "dynamic" {
            continue;
        }
        // The same host behind https: then it is not the scheme alone that decides.
        for url in [url.to_owned(), url.replacen("http://", "https://", 1)] {
            let decided = check(&url, &Named::default());
            if decided.is_ok() != (item["expect"] == "allow") {
                wrong.push(format!("{} {url:?}: {decided:?}", item["id"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn urls_are_refused_for_their_own_reasons() {
    for (url, why) in [
        ("http://id.example.com/", Refusal::Scheme),
        ("ftp://id.example.com/", Refusal::Scheme),
        ("https:id.example.com/", Refusal::Spelling),
        ("https:/id.example.com/", Refusal::Spelling),
        ("https:///id.example.com/", Refusal::Spelling),
        ("https:\\\\id.example.com/", Refusal::Spelling),
        (" https://id.example.com/", Refusal::Spelling),
        ("https://id.example.com/ ", Refusal::Spelling),
        ("https://id.exa\tmple.com/", Refusal::Spelling),
        ("https://", Refusal::Spelling),
        ("/token", Refusal::Spelling),
        ("", Refusal::Spelling),
        ("https://user@id.example.com/", Refusal::User),
        ("https://:secret@id.example.com/", Refusal::User),
        ("https://@id.example.com/", Refusal::User),
        ("https://id.example.com:22/", Refusal::Port),
        ("https://id.example.com:0/", Refusal::Port),
        ("https://id.example.com:80/", Refusal::Port),
        ("https://localhost/", Refusal::Name),
        ("https://localhost./", Refusal::Name),
        ("https://LOCALHOST/", Refusal::Name),
        ("https://a.localhost/", Refusal::Name),
        ("https://printer.local/", Refusal::Name),
        ("https://metadata.google.internal/", Refusal::Name),
        ("https://metadata/", Refusal::Name),
        ("https://router.home.arpa./", Refusal::Name),
        ("https://0x7f000001/", Refusal::Address),
        ("https://0x7f.1/", Refusal::Address),
        ("https://017700000001/", Refusal::Address),
        ("https://127.0.0.1./", Refusal::Address),
        ("https://169.254.169.254:8443/", Refusal::Address),
        ("https://[fe80::1]/", Refusal::Address),
        ("https://[::127.0.0.1]/", Refusal::Address),
        ("https://[2001:0:1::1]/", Refusal::Address),
    ] {
        assert_eq!(check(url, &Named::default()), Err(why), "{url}");
    }
    let long = format!("https://id.example.com/{}", "x".repeat(3000));
    assert_eq!(check(&long, &Named::default()), Err(Refusal::Spelling));
    for url in [
        "https://id.example.com",
        "https://id.example.com:8443/a?b=c",
        "HTTPS://id.example.com/",
        "https://internal.example.com/",
    ] {
        assert!(check(url, &Named::default()).is_ok(), "{url}");
    }
}

#[test]
fn what_the_operator_names_is_named_with_its_scheme_and_port() {
    let urls: Vec<Url> =
        ["http://127.0.0.1:9000/token", "https://id.corp/"].iter().map(|url| url.parse().unwrap()).collect();
    let named = Named::of(&urls);
    for (url, allowed) in [
        ("http://127.0.0.1:9000/jwks", true),
        ("http://127.0.0.1:9001/jwks", false),
        ("https://127.0.0.1:9000/jwks", false),
        ("http://localhost:9000/jwks", false),
        ("http://user@127.0.0.1:9000/jwks", false),
        ("https://id.corp/jwks", true),
        ("https://ID.corp:443/jwks", true),
        ("https://id.corp:8443/jwks", false),
        ("http://id.corp/jwks", false),
    ] {
        assert_eq!(check(url, &named).is_ok(), allowed, "{url}");
    }
}

#[test]
fn every_kind_of_address_that_is_not_public_is_known() {
    for (address, public) in [
        ("1.1.1.1", true),
        ("172.15.0.1", true),
        ("172.32.0.1", true),
        ("100.63.255.255", true),
        ("100.128.0.0", true),
        ("203.0.113.5", true),
        ("223.255.255.255", true),
        ("2606:4700::1111", true),
        ("2001:db8::10", true),
        ("2001:4860::8888", true),
        ("0.1.2.3", false),
        ("10.255.255.255", false),
        ("127.255.255.254", false),
        ("169.254.0.1", false),
        ("172.31.255.255", false),
        ("192.0.0.192", false),
        ("192.168.0.1", false),
        ("198.19.255.255", false),
        ("168.63.129.16", false),
        ("224.0.0.1", false),
        ("255.255.255.255", false),
        ("::", false),
        ("::1", false),
        ("::ffff:8.8.8.8", false),
        ("64:ff9b::8.8.8.8", false),
        ("64:ff9b:1::1", false),
        ("100::1", false),
        ("2001::1", false),
        ("2001:2::1", false),
        ("2001:10::1", false),
        ("2002:808:808::", false),
        ("3fff::1", false),
        ("5f00::1", false),
        ("fc00::1", false),
        ("fd00:ec2::254", false),
        ("fe80::1", false),
        ("fec0::1", false),
        ("ff02::1", false),
    ] {
        assert_eq!(is_public(address.parse::<IpAddr>().unwrap()), public, "{address}");
    }
}

#[test]
fn one_private_address_of_a_name_spoils_the_others() {
    let found = |addresses: &[&str]| addresses.iter().map(|one| one.parse().unwrap()).collect::<Vec<_>>();
    assert!(resolver::outside(found(&["1.1.1.1:443", "[2606:4700::1]:443"])).is_ok());
    let error = resolver::outside(found(&["1.1.1.1:443", "127.0.0.1:443"])).unwrap_err();
    assert_eq!(resolver::refusal(&error), Some(Refusal::Address));
}

/// A listener that counts who came, and answers with what it is given.
async fn listen(answer: String) -> (u16, tokio::sync::watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (count, counted) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.send_modify(|count| *count += 1);
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (port, counted)
}

fn get() -> Request<Bytes> {
    Request::get("/").body(Bytes::new()).unwrap()
}

#[tokio::test]
async fn a_name_that_leads_home_is_not_connected_to() {
    let (port, counted) = listen("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()).await;
    let client = Client::new(None).unwrap();
    // Past the first look, as a name would be whose second answer is another than the first.
    let to = Destination { url: format!("http://localhost:{port}/").parse().unwrap(), named: false };
    assert_eq!(client.fetch(&to, get()).await.unwrap_err(), EgressError::Refused(Refusal::Address));
    assert_eq!(*counted.borrow(), 0);
    let named = Destination::written(to.url().clone());
    assert_eq!(client.fetch(&named, get()).await.unwrap().status(), 200);
    assert_eq!(*counted.borrow(), 1);
}

#[tokio::test]
async fn redirects_are_answers_and_not_followed() {
    let (trap, trapped) = listen("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()).await;
    let answer =
        format!("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{trap}/\r\nContent-Length: 0\r\n\r\n");
    let (port, _) = listen(answer).await;
    let to = Destination::written(format!("http://127.0.0.1:{port}/").parse().unwrap());
    assert_eq!(Client::new(None).unwrap().fetch(&to, get()).await.unwrap().status(), 302);
    assert_eq!(*trapped.borrow(), 0);
}

#[tokio::test]
async fn what_is_too_large_or_too_slow_is_left() {
    let large = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(LARGEST + 1));
    let (port, _) = listen(large).await;
    let client = Client::new(None).unwrap();
    let to = |port| Destination::written(format!("http://127.0.0.1:{port}/").parse().unwrap());
    assert_eq!(client.fetch(&to(port), get()).await.unwrap_err(), EgressError::TooLarge);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let fetching = tokio::spawn(async move { client.fetch(&to(port), get()).await });
    let (_held, _) = silent.accept().await.unwrap();
    // Once the connection stands, time may run: nobody really waits.
    tokio::time::pause();
    assert_eq!(fetching.await.unwrap().unwrap_err(), EgressError::Slow);
}
