//! Everything that a tenant, or its operator in its name, can read. An output that is new gets a line in [`OUTPUTS`].

use std::{fs, path::Path};

use serde_json::Value;
use testkit::{Daemon, Request};

use super::side::Seen;

/// One output: its name, and what of it is a tenant's.
pub(super) type Output = (&'static str, fn(&Daemon, &Seen) -> Vec<u8>);

pub(super) const OUTPUTS: [Output; 7] = [
    ("answers, heads and event streams included", |_, seen| seen.heard.clone()),
    ("the audit", |daemon, seen| lines(&daemon.audit_text(), &format!("\"tenant\":\"{}\"", seen.word))),
    ("the process log", |daemon, seen| lines(&daemon.log(), seen.word)),
    ("metrics", |daemon, seen| lines(daemon.get("/metrics").text(), &format!("tenant=\"{}\"", seen.word))),
    ("its part of the status", status),
    ("metadata documents", |daemon, seen| {
        let path = format!("/.well-known/oauth-protected-resource/t/{}/mcp", seen.word);
        whole(daemon, &Request::new("GET", &path))
    }),
    ("challenges", |daemon, seen| whole(daemon, &Request::post(&format!("/t/{}/mcp", seen.word), "{}"))),
];

/// All that anybody can read, and what is kept on disk: no secret is anywhere in it.
pub(super) const ALL: [Output; 6] = [
    ("answers, heads and event streams included", |_, seen| seen.heard.clone()),
    ("the audit", |daemon, _| daemon.audit_text().into_bytes()),
    ("the process log", |daemon, _| daemon.log().into_bytes()),
    ("metrics", |daemon, _| daemon.get("/metrics").body),
    ("the status", |daemon, _| daemon.get("/status").body),
    ("what is kept on disk", |daemon, _| files(&daemon.folder().path().join("state"))),
];

fn lines(text: &str, of: &str) -> Vec<u8> {
    text.lines().filter(|line| line.contains(of)).collect::<Vec<_>>().join("\n").into_bytes()
}

fn status(daemon: &Daemon, seen: &Seen) -> Vec<u8> {
    let status = daemon.status();
    let tenants = status["tenants"].as_array().unwrap();
    let own: Vec<&Value> = tenants.iter().filter(|tenant| tenant["name"] == seen.word).collect();
    serde_json::to_vec(&own).unwrap()
}

fn whole(daemon: &Daemon, request: &Request) -> Vec<u8> {
    let mut connection = daemon.connect();
    connection.send(&request.bytes(daemon.address()));
    let answer = connection.answer();
    assert!([200, 401].contains(&answer.status), "{}", answer.status);
    let heads = answer.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    [heads.collect::<String>().as_bytes(), &answer.body].concat()
}

fn files(folder: &Path) -> Vec<u8> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { fs::read(path).unwrap_or_default() })
        .collect()
}
