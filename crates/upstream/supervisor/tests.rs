//! Tests: nothing is left, however it ends.

use crate::scripted::{LONG, Scripted, python, supervisor};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A pipe that every process of a family holds: its end is seen when the last of them is dead.
struct Breath(BufReader<pipe::Receiver>);

impl Breath {
    fn of(scripted: &Scripted) -> Self {
        let path = scripted.path().join("breath");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self(BufReader::new(pipe::OpenOptions::new().open_receiver(path).unwrap()))
    }

    /// Waits until `count` processes have said that they live.
    async fn alive(&mut self, count: usize) {
        for _ in 0..count {
            let mut line = String::new();
            timeout(LONG, self.0.read_line(&mut line)).await.expect("nobody came").unwrap();
            assert_eq!(line, "alive\n");
        }
    }

    async fn ends_within(&mut self, time: Duration) -> bool {
        timeout(time, self.0.read_to_end(&mut Vec::new())).await.is_ok()
    }
}

const FAMILY: &str = r"
breath = os.open(HOME + '/breath', os.O_WRONLY)
os.set_inheritable(breath, True)
def alive(): os.write(breath, b'alive\n')
def stubborn():
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE): signal.signal(s, signal.SIG_IGN)
def forever():
    while True: signal.pause()
def child(then):
    if os.fork() == 0:
        then(); os._exit(0)
def daemon():
    # The classic double fork: no parent, no group, no pipes.
    os.setsid()
    if os.fork(): os._exit(0)
    stubborn()
    for fd in (0, 1, 2): os.close(fd)
    alive(); forever()
def sleeper(): stubborn(); alive(); forever()
";

/// Families that do not want to go, and how many members say that they live.
const FAMILIES: [(&str, &str, usize); 4] = [
    ("a server that ignores everything", "stubborn(); alive(); forever()", 1),
    (
        "a wrapper with the real server",
        "p = subprocess.Popen(['sleep', '1000'], close_fds=False); alive(); p.wait()",
        1,
    ),
    ("a daemonized grandchild", "child(daemon); stubborn(); alive(); forever()", 2),
    (
        "many of each",
        "[child(daemon) or child(sleeper) for _ in range(5)]; stubborn(); alive(); forever()",
        11,
    ),
];

fn supervised(scripted: &Scripted) -> Child {
    let mut command = Command::new(supervisor());
    command.args(["__child", "--"]).arg(python()).args(scripted.args());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn nothing_is_left_when_the_gateway_is_killed() {
    for (what, script, members) in FAMILIES {
        let scripted = Scripted::new(&format!("{FAMILY}{script}"));
        let mut breath = Breath::of(&scripted);
        let mut gateway = Command::new(supervisor());
        gateway.arg("hold").arg(python()).args(scripted.args());
        let mut gateway = gateway.stdin(Stdio::null()).spawn().unwrap();
        breath.alive(members).await;
        gateway.start_kill().unwrap();
        assert!(breath.ends_within(Duration::from_secs(3)).await, "{what}");
        gateway.wait().await.unwrap();
    }
}

#[tokio::test]
async fn nothing_is_left_when_told_to_kill() {
    for (what, script, members) in FAMILIES {
        let scripted = Scripted::new(&format!("{FAMILY}{script}"));
        let mut breath = Breath::of(&scripted);
        let mut child = supervised(&scripted);
        breath.alive(members).await;
        signal(&child, super::KILL_NOW);
        assert!(breath.ends_within(Duration::from_secs(3)).await, "{what}");
        assert_eq!(timeout(LONG, child.wait()).await.unwrap().unwrap().code(), Some(137), "{what}");
    }
}

#[tokio::test]
async fn nothing_is_left_when_the_server_exits_by_itself() {
    let scripted = Scripted::new(&format!(
        "{FAMILY}child(daemon); child(sleeper); alive(); sys.stdin.read(); sys.exit(3)"
    ));
    let mut breath = Breath::of(&scripted);
    let mut child = supervised(&scripted);
    breath.alive(3).await;
    drop(child.stdin.take());
    assert_eq!(timeout(LONG, child.wait()).await.unwrap().unwrap().code(), Some(3));
    assert!(breath.ends_within(Duration::from_secs(3)).await);
}

#[tokio::test]
async fn sigterm_reaches_the_whole_group_and_leaves_it_time() {
    // The wrapper goes at once; what it started finishes its work first.
    let scripted = Scripted::new(&format!(
        "{FAMILY}
def real():
    def last(*_): subprocess.run(['sleep', '0.3']); note('saved'); os._exit(0)
    signal.signal(signal.SIGTERM, last); alive(); forever()
child(real); alive(); forever()"
    ));
    let mut breath = Breath::of(&scripted);
    let mut child = supervised(&scripted);
    breath.alive(2).await;
    signal(&child, rustix::process::Signal::TERM);
    assert_eq!(timeout(LONG, child.wait()).await.unwrap().unwrap().code(), Some(143));
    assert!(breath.ends_within(Duration::from_secs(3)).await);
    assert_eq!(scripted.journal(), ["start", "saved"]);
}

#[tokio::test]
async fn the_exit_status_is_the_servers() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
        let mut command = Command::new(supervisor());
        let status = command.args(["__child", "--", "/bin/sh", "-c", script]).status().await.unwrap();
        assert_eq!(status.code(), Some(code), "{script}");
    }
}

#[tokio::test]
async fn a_program_that_cannot_start_is_named_on_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    for (program, code) in [(Path::new("/nonexistent/program"), 127), (&plain, 126)] {
        let mut command = Command::new(supervisor());
        let output = command.args(["__child", "--"]).arg(program).output().await.unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(
            text.starts_with("portcullis: cannot start ") && text.contains(program.to_str().unwrap()),
            "{text}"
        );
    }
}

#[tokio::test]
async fn the_ends_of_pipes_pass_through() {
    // Closed stdout is seen although the supervisor lives on, and so is closed stdin.
    let scripted = Scripted::new("os.close(1); note(repr(sys.stdin.read())); os.close(0); signal.pause()");
    let mut child = supervised(&scripted);
    let mut out = Vec::new();
    timeout(LONG, child.stdout.as_mut().unwrap().read_to_end(&mut out)).await.unwrap().unwrap();
    drop(child.stdin.take());
    signal(&child, rustix::process::Signal::TERM);
    assert_eq!(timeout(LONG, child.wait()).await.unwrap().unwrap().code(), Some(143));
}
