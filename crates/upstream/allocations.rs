//! What a large answer over HTTP costs. A counting allocator needs a program of its own, and a server that allocates nothing once
//! it is up.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "all of this is tests, and a test that cannot go on has failed"
)]

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use upstream::{
    Address, Declared, EraFound, EraMemory, Incoming, Outbound, Patience, Seat, Spec, Upstream, Wait,
};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1 << 20;
const HELLO: &[u8] =
    br#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}"#;

struct Legacy;

impl EraMemory for Legacy {
    fn recall(&self, _tenant: &str, _upstream: &str) -> Option<EraFound> {
        Some(EraFound::Legacy)
    }
    fn remember(&self, _tenant: &str, _upstream: &str, _found: EraFound) {}
}

/// The next request: its first line and its body.
fn read<'a>(tcp: &mut TcpStream, room: &'a mut [u8]) -> Option<(&'a str, &'a str)> {
    let mut filled = 0;
    let end = loop {
        filled += tcp.read(&mut room[filled..]).ok().filter(|count| *count > 0)?;
        let text = std::str::from_utf8(&room[..filled]).ok()?;
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let length =
            text.split_once("content-length: ").map_or("0", |(_, rest)| rest.split('\r').next().unwrap());
        if text.len() == head + 4 + length.parse::<usize>().unwrap() {
            break head;
        }
    };
    let text = std::str::from_utf8(&room[..filled]).ok()?;
    Some((text.split('\r').next()?, &text[end + 4..]))
}

/// Answers `initialize` and calls, the latter with `large`.
fn serve(mut tcp: TcpStream, large: &[u8], events: bool) -> Option<()> {
    let (mut room, mut head, mut before) =
        (vec![0; 64 * 1024], Vec::with_capacity(4096), Vec::with_capacity(4096));
    loop {
        let (line, body) = read(&mut tcp, &mut room)?;
        let id = body.split("\"id\":").nth(1).map_or("0", |rest| rest.split(',').next().unwrap());
        let is_call = body.contains("\"tools/call\"");
        let (result, framed) = if is_call { (large, events) } else { (HELLO, false) };
        head.clear();
        if body.contains("\"id\":") {
            before.clear();
            let (kind, lead, end) =
                if framed { ("text/event-stream", "data: ", "}\n\n") } else { ("application/json", "", "}") };
            write!(before, r#"{lead}{{"jsonrpc":"2.0","id":{id},"result":"#).ok()?;
            let length = before.len() + result.len() + end.len();
            write!(head, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n")
                .ok()?;
            for part in [&head, &before, result, end.as_bytes()] {
                tcp.write_all(part).ok()?;
            }
        } else {
            let status = if line.starts_with("POST") { "202 Accepted" } else { "405 No" };
            write!(head, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").ok()?;
            tcp.write_all(&head).ok()?;
        }
    }
}

async fn call(connection: &Arc<upstream::Connection>, size: usize) {
    let patient = Duration::from_secs(60);
    let wait = Wait { first: patient, most: patient, progress: false };
    let build =
        |id: &wire::Id| format!(r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call"}}"#, id.raw()).into();
    let outbound = Outbound {
        method: wire::Method::ToolsCall,
        name: Some("x"),
        mirrored: &[],
        caller: None,
        build: &build,
    };
    let mut exchange = connection.send_outbound(&outbound, wait).unwrap();
    let Incoming::Answer(frame) = exchange.next().await else { panic!("no answer") };
    assert!(frame.bytes().len() > size);
}

/// Bytes and allocations of one call, the connection being open already.
async fn cost(size: usize, events: bool) -> (usize, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut large = vec![b'x'; size];
    (large[0], large[size - 1]) = (b'"', b'"');
    let large: Arc<[u8]> = large.into();
    std::thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let large = Arc::clone(&large);
            std::thread::spawn(move || serve(tcp, &large, events));
        }
    });
    let address = Address::new(format!("http://127.0.0.1:{port}/").parse().unwrap());
    let spec = Spec::http("t".into(), "u".into(), address, Patience::default(), 16 * MIB);
    let (notices, _told) = tokio::sync::mpsc::channel(8);
    let upstream =
        Upstream::start(Arc::new(spec), Seat::Shared, Declared::nothing(), Arc::new(Legacy), notices);
    let connection = upstream.connection().await.unwrap();
    for _ in 0..10 {
        call(&connection, size).await;
    }
    const ROUNDS: usize = 20;
    let region = Region::new(COUNTED);
    for _ in 0..ROUNDS {
        call(&connection, size).await;
    }
    let change = region.change();
    upstream.stop().await;
    (change.bytes_allocated / ROUNDS, change.allocations / ROUNDS)
}

#[tokio::test]
async fn an_answer_costs_a_few_times_its_size() {
    for (what, size, events, most_bytes, most_allocations) in [
        ("a small answer", 100, false, 40 * 1024, 80),
        ("a megabyte of JSON", MIB, false, 5 * MIB / 2, 160),
        ("a megabyte of a stream", MIB, true, 6 * MIB, 160),
    ] {
        let (bytes, allocations) = cost(size, events).await;
        eprintln!("{what}: {bytes} bytes in {allocations} allocations");
        assert!(bytes <= most_bytes, "{what}: {bytes} bytes");
        assert!(allocations <= most_allocations, "{what}: {allocations} allocations");
    }
}
