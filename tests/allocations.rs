//! What a large result costs: the gateway in this process, under an allocator that counts.
//!
//! A test program of its own, since a program has one allocator.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is tests, and a test that cannot go on has failed"
)]

use std::{
    alloc::System,
    collections::HashMap,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use gateway::{Arrival, Endpoint, Gateway, Head, Mirrored, Reply, Verb};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use testkit::{Script, Step};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1024 * 1024;

/// A configuration in memory, with the programs of this machine.
struct Memory(HashMap<PathBuf, String>);

impl config::Files for Memory {
    fn condition(&self, _text: &str, _about: &[config::Subject]) -> Result<(), Vec<config::Flaw>> {
        Ok(())
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let folder = pattern.parent();
        Ok(self.0.keys().filter(|path| path.parent() == folder).cloned().collect())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn secret(&self, _: &str) -> Option<String> {
        None
    }

    fn program(&self, name: &str, _: Option<&Path>) -> Option<PathBuf> {
        Some(PathBuf::from(name))
    }
}

/// One arrival at `/mcp`.
fn arrival(session: Option<&str>, body: String) -> Arrival {
    let head = Head {
        verb: Verb::Post,
        endpoint: Endpoint::default(),
        session: session.map(Into::into),
        revision: session.map(|_| "2025-11-25".into()),
        last_event: None,
        authorization: Default::default(),
        mirror: Mirrored::default(),
        accepts_json: true,
        accepts_events: true,
        peer: SocketAddr::from(([127, 0, 0, 1], 1)),
        received: Instant::now(),
    };
    Arrival { head, body: Box::pin(async move { Ok(Bytes::from(body)) }) }
}

/// Hands a message over, takes the answer piece by piece as a transport does, and returns how many bytes it had.
async fn ask(gateway: &Arc<Gateway>, session: Option<&str>, body: &str) -> (usize, Option<Arc<str>>) {
    let (mut bytes, mut opened) = (0, None);
    match gateway.serve(arrival(session, body.to_owned())).await {
        Reply::Message { body, session, status, challenge: _ } => {
            assert_eq!(status, 200);
            bytes += body.into_iter().map(|piece| piece.len()).sum::<usize>();
            opened = session;
        }
        Reply::Running(mut running) => {
            while let Some(out) = running.next().await {
                bytes += out.message.into_iter().map(|piece| piece.len()).sum::<usize>();
                if out.last {
                    break;
                }
            }
        }
        Reply::Accepted => (),
        other => panic!("{other:?}"),
    }
    (bytes, opened)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_of_one_mebibyte_is_read_once_and_never_copied_again() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("scripts/alpha");
    fs::create_dir_all(&home).unwrap();
    let numbers = format!(r#"{{"content":[],"structuredContent":{{"n":[{}[0]]}}}}"#, "[0],".repeat(MIB / 4));
    let script = Script::tools(&["text", "numbers"])
        .on_call("text", &[Step::big(MIB)])
        .on_call("numbers", &[Step::result(&numbers)]);
    let args = script.install("alpha", &home);
    let main = folder.path().join("portcullis.yaml");
    let state = serde_json::json!(folder.path().join("state"));
    let tenant = format!(
        "tenant: acme\nupstreams:\n  alpha: {{ command: /usr/bin/env, args: {}, share: tenant }}\n",
        serde_json::json!([&["python3".to_owned()][..], &args[..]].concat())
    );
    let files = Memory(HashMap::from([
        (main.clone(), format!("state_dir: {state}\ntenants: tenants/*.yaml\n")),
        (folder.path().join("tenants/acme.yaml"), tenant),
    ]));
    let loaded = config::load(&main, &files).map_err(|problems| config::render(&problems)).unwrap();
    let supervisor = PathBuf::from(env!("CARGO_BIN_EXE_portcullis"));
    let gateway = Gateway::open(Arc::new(loaded.config), supervisor).await.unwrap();

    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    let (_, session) = ask(&gateway, None, hello).await;
    let session = session.unwrap();
    for tool in ["text", "numbers"] {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"alpha__{tool}","arguments":{{}}}}}}"#
        );
        // Whatever is made once is made by the first calls.
        for _ in 0..3 {
            assert!(ask(&gateway, Some(&session), &call).await.0 > MIB);
        }
        let region = Region::new(ALLOCATOR);
        let (bytes, _) = ask(&gateway, Some(&session), &call).await;
        let seen = region.change();
        assert!(bytes > MIB);
        // A buffer that grows counts by what it grew.
        let allocated = seen.bytes_allocated;
        eprintln!("{tool}: {allocated} bytes in {} allocations for a result of {bytes}", seen.allocations);
        assert!(allocated <= 5 * MIB / 2, "{tool}: {allocated} bytes for a result of {bytes}: {seen:?}");
    }
    gateway.drain().await;
}
