//! Scripted servers for the tests: a few lines of Python behind the real supervisor.

use crate::{
    Connection, Declared, EraFound, EraMemory, Exchange, Incoming, Launch, Notice, Patience, Reach, Seat,
    Spec, Upstream, Wait, What,
};
use bytes::Bytes;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use wire::Frame;

/// Longer than anything here takes on a busy machine; a test that needs it has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What every script begins with. `note` leaves a line in the journal, `serve` is a whole legacy server whose calls go to `on`.
const PRELUDE: &str = r#"
import sys, os, json, signal, time, threading, subprocess
HOME = os.path.dirname(os.path.abspath(__file__))
lock = threading.Lock()
def note(text):
    fd = os.open(HOME + '/journal', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, (text + '\n').encode()); os.close(fd)
def raw(data):
    with lock:
        sys.stdout.buffer.write(data); sys.stdout.buffer.flush()
def send(message): raw(json.dumps(message).encode() + b'\n')
def result(m, value): send({'jsonrpc': '2.0', 'id': m['id'], 'result': value})
def error(m, code, data=None):
    send({'jsonrpc': '2.0', 'id': m['id'], 'error': {'code': code, 'message': 'no', **({'data': data} if data else {})}})
def notify(method, **params): send({'jsonrpc': '2.0', 'method': method, 'params': params})
def messages():
    for line in sys.stdin.buffer:
        m = json.loads(line)
        note(m.get('method', 'answer'))
        yield m
def hello(m, version=None):
    result(m, {'protocolVersion': version or m['params']['protocolVersion'], 'capabilities': {'tools': {'listChanged': True}, 'logging': None},
               'serverInfo': {'name': 'scripted', 'version': '1'}, 'instructions': 'be kind'})
def serve(on=lambda m: result(m, {'pid': os.getpid(), 'params': m.get('params')}), probe=lambda m: error(m, -32601)):
    for m in messages():
        if m.get('method') == 'server/discover': probe(m)
        elif m.get('method') == 'initialize': hello(m)
        elif m.get('method', '').startswith('notifications/init'): pass
        else: on(m)
note('start')
"#;

#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<(String, String), EraFound>>);

impl EraMemory for Memory {
    fn recall(&self, tenant: &str, upstream: &str) -> Option<EraFound> {
        self.0.lock().unwrap().get(&(tenant.to_owned(), upstream.to_owned())).copied()
    }
    fn remember(&self, tenant: &str, upstream: &str, found: EraFound) {
        self.0.lock().unwrap().insert((tenant.to_owned(), upstream.to_owned()), found);
    }
}

/// One scripted server, its journal, and what it says to the gateway.
pub(crate) struct Scripted {
    dir: tempfile::TempDir,
    pub(crate) spec: Spec,
    pub(crate) memory: Arc<Memory>,
    pub(crate) notices: mpsc::Sender<Notice>,
    pub(crate) told: mpsc::Receiver<Notice>,
}

/// The example beside the test program.
pub(crate) fn supervisor() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/supervised");
    assert!(path.exists(), "build the example first: cargo build -p upstream --examples");
    path
}

impl Scripted {
    pub(crate) fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("server.py");
        std::fs::write(&file, format!("{PRELUDE}{script}")).unwrap();
        let launch = Launch {
            supervisor: supervisor(),
            program: python(),
            args: vec!["-S".to_owned(), file.to_str().unwrap().to_owned()],
            env: Vec::new(),
            dir: None,
        };
        let patience = Patience { probe: Duration::from_secs(5), ..Patience::default() };
        let spec = Spec::stdio("acme".into(), "files".into(), launch, patience, 16 << 20);
        let (notices, told) = mpsc::channel(256);
        Self { dir, spec, memory: Arc::default(), notices, told }
    }

    pub(crate) fn launch(&mut self) -> &mut Launch {
        match &mut self.spec.reach {
            Reach::Stdio(launch) => launch,
            Reach::Http(_) => panic!("scripted servers are processes"),
        }
    }

    pub(crate) fn args(&self) -> &[String] {
        match &self.spec.reach {
            Reach::Stdio(launch) => &launch.args,
            Reach::Http(_) => panic!("scripted servers are processes"),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn start(&self) -> Arc<Upstream> {
        self.start_for(Seat::Shared, Declared::nothing())
    }

    /// For one client, which can do this.
    pub(crate) fn start_for(&self, seat: Seat, declared: Declared) -> Arc<Upstream> {
        let memory: Arc<dyn EraMemory> = Arc::<Memory>::clone(&self.memory);
        Upstream::start(Arc::new(self.spec.clone()), seat, declared, memory, self.notices.clone())
    }

    /// What the server noted, one word a line.
    pub(crate) fn journal(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join("journal")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn starts(&self) -> usize {
        self.journal().iter().filter(|line| *line == "start").count()
    }

    /// The next notice.
    pub(crate) async fn notice(&mut self) -> What {
        timeout(LONG, self.told.recv()).await.expect("no notice came").unwrap().what
    }

    /// The reason of the next `Down`.
    pub(crate) async fn down(&mut self) -> String {
        loop {
            if let What::Down { why } = self.notice().await {
                return why;
            }
        }
    }
}

/// The interpreter itself, not a wrapper script that adds to the environment.
pub(crate) fn python() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let mut command = std::process::Command::new("python3");
        let output =
            command.args(["-S", "-c", "import sys; print(sys.executable, end='')"]).output().unwrap();
        PathBuf::from(String::from_utf8(output.stdout).unwrap())
    };
    FOUND.get_or_init(find).clone()
}

/// Patient enough for anything.
pub(crate) const CALM: Wait = Wait { first: LONG, most: LONG, progress: true };

/// Sends `method` with raw `params`.
pub(crate) fn ask(connection: &Arc<Connection>, method: &str, params: &str, wait: Wait) -> Exchange {
    let build = |id: &wire::Id| {
        Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{params}}}"#, id.raw()))
    };
    connection.send(&build, wait).unwrap()
}

/// Waits for something else than the answer. A request over HTTP is on its way only while its asker waits.
pub(crate) async fn meanwhile<T>(exchange: &mut Exchange, event: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        found = event => found,
        incoming = exchange.next() => panic!("{incoming:?}"),
    }
}

/// The answer, whatever comes before it.
pub(crate) async fn answer(exchange: &mut Exchange) -> Result<Frame, crate::UpstreamError> {
    loop {
        match exchange.next().await {
            Incoming::Progress(_) | Incoming::Question(_) | Incoming::Told(_) | Incoming::Later => {}
            Incoming::Answer(frame) => return Ok(frame),
            Incoming::Failed(error) => return Err(error),
        }
    }
}

/// Calls and returns one raw member of the result.
pub(crate) async fn call(connection: &Arc<Connection>, method: &str, member: &str) -> String {
    let frame = answer(&mut ask(connection, method, "{}", CALM)).await.unwrap();
    frame.result_member(member).unwrap_or_default().to_owned()
}
