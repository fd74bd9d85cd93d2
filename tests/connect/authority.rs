//! A server that wants a login and the authorization server that gives it, both scripted, and a browser that is a file.

use std::{
    collections::VecDeque,
    fs,
    io::Write as _,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{StdioClient, until};

use super::{command, request};

/// Where the metadata of an issuer are, before its path.
const OAUTH: &str = "/.well-known/oauth-authorization-server";

/// What both servers do.
pub(super) struct Rules {
    /// The path of the issuer.
    pub(super) issuer: &'static str,
    /// Members of the metadata that differ; `null` takes one out.
    pub(super) metadata: Value,
    /// What the document about the server says it is about, below its address.
    pub(super) resource: &'static str,
    /// Paths that answer 404.
    pub(super) missing: Vec<&'static str>,
    /// The access token that is accepted.
    pub(super) good: String,
    /// Scopes that the next calls want, one call each.
    pub(super) wants: VecDeque<&'static str>,
    pub(super) expires_in: u64,
    /// Whether refresh tokens count.
    pub(super) refreshes: bool,
    given: usize,
}

/// One request that came.
#[derive(Clone, Debug)]
pub(super) struct Came {
    pub(super) line: String,
    pub(super) head: String,
    pub(super) body: String,
}

/// Both servers, and where a user's files are.
pub(super) struct Stand {
    address: SocketAddr,
    rules: Arc<Mutex<Rules>>,
    came: Arc<Mutex<Vec<Came>>>,
    pub(super) home: TempDir,
}

impl Stand {
    pub(super) fn new() -> Stand {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rules = Rules {
            issuer: "",
            metadata: json!({}),
            resource: "/mcp",
            missing: Vec::new(),
            good: "none".to_owned(),
            wants: VecDeque::new(),
            expires_in: 3600,
            refreshes: true,
            given: 0,
        };
        let stand = Stand {
            address: listener.local_addr().unwrap(),
            rules: Arc::new(Mutex::new(rules)),
            came: Arc::default(),
            home: tempfile::tempdir().unwrap(),
        };
        let (address, rules, came) = (stand.address, Arc::clone(&stand.rules), Arc::clone(&stand.came));
        thread::spawn(move || {
            for connection in listener.incoming() {
                answer(connection.unwrap(), address, &rules, &came);
            }
        });
        stand.install_browser();
        stand
    }

    /// Writes down where it is sent, and talks, which nobody may hear.
    fn install_browser(&self) {
        for name in ["xdg-open", "open"] {
            let path = self.home.path().join(name);
            let opened = self.opened();
            let opened = opened.display();
            fs::write(
                &path,
                format!("#!/bin/sh\necho noise\necho noise >&2\nprintf '%s' \"$1\" >'{opened}.new' && mv '{opened}.new' '{opened}'\n"),
            )
            .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn opened(&self) -> PathBuf {
        self.home.path().join("opened")
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap()
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(super) fn issuer(&self) -> String {
        format!("http://{}{}", self.address, self.rules().issuer)
    }

    /// The program, for a user of this stand.
    pub(super) fn command(&self) -> Command {
        let mut command = command(&self.url());
        let path = format!("{}:{}", self.home.path().display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("DISPLAY", ":0").env("XDG_STATE_HOME", self.home.path().join("state"));
        command
    }

    pub(super) fn client(&self) -> StdioClient {
        StdioClient::start(&mut self.command())
    }

    /// Where the browser was sent, once it was.
    pub(super) fn page(&self) -> Page {
        let opened = self.opened();
        let text = until("the browser to open", || fs::read_to_string(&opened).ok());
        fs::remove_file(&opened).unwrap();
        Page(text)
    }

    pub(super) fn no_page(&self) {
        assert!(!self.opened().exists(), "the browser was opened");
    }

    /// A person who logs in.
    pub(super) fn log_in(&self) -> Page {
        let page = self.page();
        let issuer = self.issuer();
        let shown = page.answer(&[("code", "c0de"), ("iss", &issuer)]);
        assert!(shown.contains("200 OK"), "{shown}");
        page
    }

    /// The requests whose line begins so.
    pub(super) fn came(&self, begin: &str) -> Vec<Came> {
        let came = self.came.lock().unwrap();
        came.iter().filter(|came| came.line.starts_with(begin)).cloned().collect()
    }

    /// The one file of a token.
    pub(super) fn file(&self) -> PathBuf {
        let [file] = self.files().try_into().unwrap();
        file
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let folder = fs::read_dir(self.home.path().join("state/portcullis/logins"));
        let names = folder.into_iter().flatten().map(|entry| entry.unwrap().path());
        names
            .filter(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name.ends_with(".json") && !name.starts_with("client.")
            })
            .collect()
    }

    pub(super) fn kept(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.file()).unwrap()).unwrap()
    }

    /// Changes a member of the token that is kept.
    pub(super) fn change_kept(&self, member: &str, value: Value) {
        let mut kept = self.kept();
        kept[member] = value;
        fs::write(self.file(), kept.to_string()).unwrap();
    }
}

/// Where a browser was sent.
pub(super) struct Page(pub(super) String);

impl Page {
    /// A field of the question.
    pub(super) fn field(&self, name: &str) -> String {
        self.find(name).unwrap_or_else(|| panic!("{name} in {}", self.0))
    }

    pub(super) fn find(&self, name: &str) -> Option<String> {
        form(self.0.split_once('?').unwrap().1)
            .into_iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// Brings an answer back, with the state of the question; what is shown then.
    pub(super) fn answer(&self, fields: &[(&str, &str)]) -> String {
        let state = self.field("state");
        self.bring(&[&[("state", state.as_str())], fields].concat())
    }

    pub(super) fn bring(&self, fields: &[(&str, &str)]) -> String {
        let redirect = self.field("redirect_uri");
        let (host, path) = redirect.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let query: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut connection = TcpStream::connect(host).unwrap();
        write!(connection, "GET /{path}?{} HTTP/1.1\r\nhost: {host}\r\n\r\n", query.join("&")).unwrap();
        let mut shown = String::new();
        std::io::Read::read_to_string(&mut connection, &mut shown).unwrap();
        shown
    }
}

/// The fields of a form.
pub(super) fn form(text: &str) -> Vec<(String, String)> {
    let plain = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                byte => byte,
            });
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (plain(name), plain(value))).collect()
}

fn answer(mut connection: TcpStream, address: SocketAddr, rules: &Mutex<Rules>, came: &Mutex<Vec<Came>>) {
    let (head, body) = request(&connection);
    let line = head.split(" HTTP/").next().unwrap().to_owned();
    let mut rules = rules.lock().unwrap();
    let (status, fields, text) = respond(&line, &head, &body, address, &mut rules);
    came.lock().unwrap().push(Came { line, head, body });
    let end = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n{fields}content-length: {}\r\n\r\n",
        text.len()
    );
    let _ = connection.write_all(format!("{end}{text}").as_bytes());
}

fn respond(
    line: &str,
    head: &str,
    body: &str,
    address: SocketAddr,
    rules: &mut Rules,
) -> (String, String, String) {
    let (verb, path) = line.split_once(' ').unwrap();
    let base = format!("http://{address}");
    let said = |status: &str, text: String| (status.to_owned(), String::new(), text);
    if rules.missing.contains(&path) {
        return said("404 No", String::new());
    }
    match (verb, path) {
        ("POST", "/mcp") => message(head, body, &base, rules),
        ("GET", "/document") => said(
            "200 OK",
            json!({
                "resource": format!("{base}{}", rules.resource),
                "authorization_servers": [format!("{base}{}", rules.issuer)],
                "scopes_supported": ["x", "y"],
            })
            .to_string(),
        ),
        ("GET", path) if path.contains("/.well-known/o") => {
            said("200 OK", metadata(&base, path.strip_prefix(OAUTH).unwrap_or(rules.issuer), rules))
        }
        ("POST", "/register") => {
            said("201 Made", json!({ "client_id": format!("us@{}", rules.issuer) }).to_string())
        }
        ("POST", "/token") if body.contains("refresh_token=") && !rules.refreshes => {
            said("400 No", json!({ "error": "invalid_grant" }).to_string())
        }
        ("POST", "/token") => {
            rules.given += 1;
            rules.good = format!("access-{}", rules.given);
            let token = json!({
                "access_token": rules.good,
                "refresh_token": format!("refresh-{}", rules.given),
                "token_type": "bearer",
                "expires_in": rules.expires_in,
            });
            said("200 OK", token.to_string())
        }
        ("POST", "/revoke") => said("200 OK", String::new()),
        ("GET", "/mcp") => said("405 No", String::new()),
        _ => said("404 No", String::new()),
    }
}

fn metadata(base: &str, issuer: &str, rules: &Rules) -> String {
    let mut metadata = json!({
        "issuer": format!("{base}{issuer}"),
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "revocation_endpoint": format!("{base}/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["openid", "offline_access"],
        "authorization_response_iss_parameter_supported": true,
    });
    let members = rules.metadata.as_object().unwrap();
    metadata.as_object_mut().unwrap().extend(members.clone());
    metadata.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    metadata.to_string()
}

fn message(head: &str, body: &str, base: &str, rules: &mut Rules) -> (String, String, String) {
    let challenge = |more: &str| {
        format!("www-authenticate: Basic realm=\"x\", Bearer resource_metadata=\"{base}/document\"{more}\r\n")
    };
    if !head.contains(&format!("authorization: Bearer {}\r\n", rules.good)) {
        return ("401 No".to_owned(), challenge(", scope=\"a\""), String::new());
    }
    if let Some(scope) = rules.wants.pop_front().filter(|_| body.contains("tools/call")) {
        let more = format!(", error=\"insufficient_scope\", scope=\"{scope}\"");
        return ("403 No".to_owned(), challenge(&more), String::new());
    }
    let Some(id) = serde_json::from_str::<Value>(body).ok().and_then(|message| message.get("id").cloned())
    else {
        return ("202 Yes".to_owned(), String::new(), String::new());
    };
    let result = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "serverInfo": { "name": "guarded", "version": "1" },
    });
    let text = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    ("200 OK".to_owned(), String::new(), text)
}
