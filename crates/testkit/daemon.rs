//! A running daemon, and all that can be seen of it from outside.

use std::{
    fs,
    io::Write as _,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use serde_json::Value;

use crate::{
    client::Client,
    http::{Answer, Connection, Request},
    processes,
    setup::{Folder, Setup},
    wait::until,
};

/// What the daemon ends with when an address is taken.
const TAKEN: i32 = 69;

/// A running daemon with a folder of its own. Killed when dropped, and its servers with it.
#[derive(Debug)]
pub struct Daemon {
    folder: Folder,
    child: Child,
    clients: SocketAddr,
    operators: SocketAddr,
}

/// What one scripted server leaves and looks for.
#[derive(Debug)]
pub struct Journal(PathBuf);

impl Daemon {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(setup: &Setup, program: &str) -> Daemon {
        // Ports are free when they are chosen, and may be taken by another test a moment later.
        for _ in 0..10 {
            if let Some(daemon) = Daemon::try_start(setup, program) {
                return daemon;
            }
        }
        panic!("no free port after ten attempts");
    }

    fn try_start(setup: &Setup, program: &str) -> Option<Daemon> {
        let ports = (free_port(), free_port());
        let folder = setup.write(ports);
        let child = spawn(program, &folder);
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let daemon = Daemon { folder, child, clients: at(ports.0), operators: at(ports.1) };
        daemon.ready()
    }

    /// Waits until it is; none when somebody else has one of its addresses.
    fn ready(mut self) -> Option<Daemon> {
        let ended = until("the daemon to be ready", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(Some(status));
            }
            // Its own word first: another daemon may answer at the port that this one cannot have.
            let serves = self.log().contains("serving");
            (serves && self.get("/readyz").status == 200).then_some(None)
        });
        match ended {
            None => Some(self),
            Some(status) if status.code() == Some(TAKEN) => None,
            Some(status) => panic!("the daemon ended with {status}:\n{}", self.log()),
        }
    }

    /// Ends it and starts it again in the same folder, at the same addresses.
    pub fn restart(&mut self, program: &str) {
        self.terminate();
        assert_eq!(self.ended().code(), Some(0), "{}", self.log());
        self.child = spawn(program, &self.folder);
        until("the daemon to be ready again", || {
            assert_eq!(self.child.try_wait().unwrap(), None, "{}", self.log());
            let serves = self.log().contains("serving");
            (serves && self.get("/readyz").status == 200).then_some(())
        });
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.clients
    }

    /// The URL of the default endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.clients)
    }

    /// The operators' URL.
    pub fn admin(&self) -> String {
        format!("http://{}", self.operators)
    }

    /// A client with an open session at the default endpoint.
    pub fn client(&self) -> Client {
        self.client_at("/mcp")
    }

    /// A client with an open session at another endpoint.
    pub fn client_at(&self, path: &str) -> Client {
        Client::open(self.clients, path)
    }

    /// A client that has not said anything yet.
    pub fn stranger(&self) -> Client {
        Client::new(self.clients, "/mcp")
    }

    /// A new connection to the clients' listener.
    pub fn connect(&self) -> Connection {
        Connection::open(self.clients)
    }

    /// One page of the operators' listener.
    pub fn get(&self, path: &str) -> Answer {
        self.ask_operators(Request::new("GET", path))
    }

    /// An API key of this principal, made now.
    pub fn api_key(&self, tenant: &str, principal: &str, groups: &[&str]) -> String {
        let wanted = serde_json::json!({
            "name": principal, "tenant": tenant, "principal": principal, "groups": groups,
        });
        let answer = self.ask_operators(Request::post("/admin/v1/keys", wanted.to_string()));
        answer.json()["key"].as_str().unwrap().to_owned()
    }

    fn ask_operators(&self, mut request: Request) -> Answer {
        let mut connection = Connection::open(self.operators);
        if let Ok(key) = fs::read_to_string(self.folder.path().join("state/admin.key")) {
            request = request.with("Authorization", &format!("Bearer {}", key.trim()));
        }
        connection.send(&request.bytes(self.operators));
        connection.answer()
    }

    /// The status page.
    pub fn status(&self) -> Value {
        self.get("/status").json()
    }

    /// The state of an upstream, as the status page has it, of whatever tenant.
    pub fn state_of(&self, upstream: &str) -> Value {
        let status = self.status();
        let tenants = status["tenants"].as_array().unwrap().iter();
        let mut upstreams = tenants.flat_map(|tenant| tenant["upstreams"].as_array().unwrap());
        upstreams.find(|found| found["id"] == upstream).unwrap().clone()
    }

    /// Waits until the lists of an upstream are served.
    pub fn settled(&self, upstream: &str) -> &Daemon {
        until(&format!("`{upstream}` to be up"), || (self.state_of(upstream)["state"] == "up").then_some(()));
        self
    }

    /// All it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Where its files are.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The audit file, as it is now.
    pub fn audit_text(&self) -> String {
        fs::read_to_string(self.folder.audit()).unwrap()
    }

    /// The audit lines, as they are now.
    pub fn audit(&self) -> Vec<Value> {
        // A line that is being written has no end yet.
        let text = self.audit_text();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The lines of the first entry that `is` the one, once its last line is written.
    pub fn entry(&self, what: &str, is: impl Fn(&Value) -> bool) -> Vec<Value> {
        until(&format!("the entry of {what}"), || {
            let lines = self.audit();
            let entry = &lines.iter().find(|line| is(line))?["entry"];
            let mine: Vec<_> = lines.iter().filter(|line| line["entry"] == *entry).cloned().collect();
            mine.iter().any(|line| line["line"] != "intent").then_some(mine)
        })
    }

    /// The journal of a scripted upstream.
    pub fn journal(&self, upstream: &str) -> Journal {
        Journal(self.folder.script(upstream))
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        processes::terminate(self.pid());
    }

    /// Asks it to read its configuration again, and returns when that is in force or was refused.
    pub fn reload(&self) {
        let before = self.reloads();
        processes::hang_up(self.pid());
        until("the configuration to be read again", || (self.reloads() > before).then_some(()));
    }

    /// How many configurations were taken or refused after the first.
    pub fn reloads(&self) -> u64 {
        let page = self.get("/metrics");
        let lines = page.text().lines().filter(|line| line.starts_with("portcullis_reloads_total{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Writes a file of its folder anew.
    pub fn rewrite(&self, path: &str, change: impl FnOnce(String) -> String) {
        let path = self.folder.path().join(path);
        let text = change(fs::read_to_string(&path).unwrap_or_default());
        fs::write(path, text).unwrap();
    }

    /// Sends SIGKILL and waits for the end of the daemon alone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        until("the daemon to end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Shown by the test runner beside the failure.
            let _ = writeln!(std::io::stderr(), "--- the daemon's log\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Journal {
    /// Everything in it so far: `{pid, got}` for each line received, `{pid, event}` for the rest.
    pub fn entries(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.0.join("journal")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The raw lines with this method, by all processes.
    pub fn raw(&self, method: &str) -> Vec<String> {
        let lines = self.entries().into_iter().filter_map(|entry| Some(entry["got"].as_str()?.to_owned()));
        lines.filter(|line| message(line)["method"] == method).collect()
    }

    /// The messages with this method, by all processes.
    pub fn received(&self, method: &str) -> Vec<Value> {
        self.raw(method).iter().map(|line| message(line)).collect()
    }

    /// Waits until a message with this method was received, and returns the first.
    pub fn awaits(&self, method: &str) -> Value {
        until(&format!("`{method}` at the upstream"), || self.received(method).into_iter().next())
    }

    /// Answers to what it asked.
    pub fn answers(&self) -> Vec<Value> {
        let lines = self.entries().into_iter().filter_map(|entry| Some(message(entry["got"].as_str()?)));
        lines.filter(|message| message.get("method").is_none()).collect()
    }

    /// The processes that noted this event, in order.
    pub fn noted(&self, event: &str) -> Vec<u64> {
        let entries = self.entries().into_iter().filter(|entry| entry["event"] == event);
        entries.map(|entry| entry["pid"].as_u64().unwrap()).collect()
    }

    /// Waits until somebody stands at a gate.
    pub fn waits_at(&self, gate: &str) {
        until(&format!("somebody to wait at gate `{gate}`"), || {
            self.entries().iter().any(|entry| entry["gate"] == gate).then_some(())
        });
    }

    /// Opens a gate.
    pub fn open(&self, gate: &str) {
        fs::write(self.0.join(format!("gate-{gate}")), "").unwrap();
    }

    /// Gives a cue.
    pub fn cue(&self, name: &str) {
        fs::write(self.0.join(format!("cue-{name}")), "").unwrap();
    }

    /// The file that the script copied.
    pub fn copied(&self) -> String {
        fs::read_to_string(self.0.join("copied")).unwrap()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

fn message(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

fn spawn(program: &str, folder: &Folder) -> Child {
    let file = |name: &str| fs::File::create(folder.path().join(name)).unwrap();
    Command::new(program)
        .args(["serve", "--config"])
        .arg(folder.config())
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(file("out"))
        .stderr(file("log"))
        .spawn()
        .unwrap()
}

/// A port of loopback that is free now, below those that the system gives to connections.
pub(crate) fn free_port() -> u16 {
    use std::hash::{BuildHasher as _, RandomState};
    for attempt in 0..1000_u32 {
        let random = RandomState::new().hash_one(attempt);
        let port = 10_000 + u16::try_from(random % 20_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}
