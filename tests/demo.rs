//! The first minute: `portcullis demo`, and the line it prints.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use testkit::{processes, until};

use crate::PORTCULLIS;

/// A running demo. Killed when dropped.
struct Demo {
    child: Child,
    folder: tempfile::TempDir,
}

impl Demo {
    fn start() -> Demo {
        let folder = tempfile::tempdir().unwrap();
        let out = fs::File::create(folder.path().join("out")).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(PORTCULLIS)
            .arg("demo")
            .env("TMPDIR", folder.path())
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(log)
            .spawn()
            .unwrap();
        Demo { child, folder }
    }

    fn printed(&self) -> String {
        fs::read_to_string(self.folder.path().join("out")).unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_printed_line_gives_a_tools_answer_and_nothing_is_kept() {
    let mut demo = Demo::start();
    let line = until("the line to paste", || {
        let printed = demo.printed();
        // The last words come after the line, so it is whole.
        printed.contains("Ctrl-C").then_some(())?;
        printed.lines().map(str::trim).find(|line| line.starts_with("curl ")).map(str::to_owned)
    });
    let here = Command::new("curl").arg("--version").output();
    assert!(here.is_ok(), "this test runs the printed line, and that needs curl: install it");

    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{line}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let result = &answer["result"];
    assert!(!result["content"][0]["text"].as_str().unwrap().is_empty(), "{answer}");
    assert_ne!(result["isError"], true, "{answer}");

    // The snippet names the same place, and both servers are behind it.
    let printed = demo.printed();
    let url = printed
        .split_whitespace()
        .find(|word| word.starts_with("http://") && word.ends_with("/mcp"))
        .unwrap();
    let (start, end) = (printed.find("\n{").unwrap(), printed.find("\n}").unwrap() + 2);
    let snippet: Value = serde_json::from_str(&printed[start..end]).unwrap();
    let server = &snippet["mcpServers"]["portcullis"];
    assert_eq!(server["url"], url);
    let key = server["headers"]["Authorization"].as_str().unwrap().strip_prefix("Bearer ").unwrap();
    assert!(key.starts_with("pck_"), "{key}");
    let list = || {
        let mut list = Command::new(PORTCULLIS);
        list.args(["tools", "ls", "--url", url, "-o", "json"]).env_remove("PORTCULLIS_TOKEN");
        list
    };
    let stranger = list().output().unwrap();
    assert_eq!(stranger.status.code(), Some(69), "nobody comes in without the key: {stranger:?}");
    let listed = list().args(["--token", key]).output().unwrap();
    let tools: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    for prefix in ["notes__", "clock__"] {
        assert!(
            tools.iter().any(|tool| tool["name"].as_str().unwrap().starts_with(prefix)),
            "{prefix} in {tools:?}"
        );
    }

    assert!(!tools.iter().any(|tool| tool["name"] == "notes__clear"), "a rule hides it: {tools:?}");
    let denied = Command::new(PORTCULLIS)
        .args(["tools", "call", "notes__clear", "--url", url, "--token", key])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&denied.stderr);
    assert_eq!(denied.status.code(), Some(1), "{said}");
    assert!(said.contains("unknown tool `notes__clear`"), "{said}");

    revoking_decides(&demo, &printed);

    let below = processes::descendants(demo.child.id());
    processes::terminate(demo.child.id());
    let ended = until("the demo to end", || demo.child.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
    assert!(below.iter().all(|process| !process.exists()), "{below:?}");
    let left: Vec<_> =
        fs::read_dir(demo.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "only what the test wrote itself: {left:?}");
}

/// Revoking a key that does not exist is answered with no, by a gateway that is running as well.
fn revoking_decides(demo: &Demo, printed: &str) {
    let words: Vec<_> = printed.split_whitespace().collect();
    let after = |option: &str| words.iter().skip_while(|word| **word != option).nth(1).unwrap();
    let unknown = Command::new(PORTCULLIS)
        .args(["token", "revoke", "key", "nobody"])
        .args(["--admin", after("--admin"), "--state-dir", after("--state-dir")])
        .current_dir(demo.folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!((unknown.status.code(), said.trim()), (Some(1), "there is no such API key"));
}

#[test]
fn a_second_demo_finds_ports_of_its_own() {
    let (first, second) = (Demo::start(), Demo::start());
    let url = |demo: &Demo| {
        until("the addresses", || {
            let printed = demo.printed();
            printed.contains("Ctrl-C").then_some(())?;
            printed.split_whitespace().find(|word| word.ends_with("/mcp")).map(str::to_owned)
        })
    };
    assert_ne!(url(&first), url(&second));
}
