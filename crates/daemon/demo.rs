//! `portcullis demo`: a whole gateway with two MCP servers of its own, in a folder that goes when it ends.
//!
//! One server is a program behind standard input and output, the other is reached over HTTP.

mod clock;
mod http;
mod notes;
mod server;
mod stdio;

use std::{
    fs,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use config::Secret;
use gateway::{KeyRequest, Tokens, TokensError};
use tokio::net::TcpListener;

use crate::{
    cli,
    failure::Failure,
    listen::{self, Stop, Terms},
    origin::Allowed,
    reload::Reload,
    run::{self, Doors},
};

/// The port for clients, and the one for operators after it.
const PORT: u16 = 7420;

/// The only tenant.
const TENANT: &str = "demo";

/// Who may do what: everything but one.
const POLICY: &str = "\
default: allow
rules:
  - { name: keep-the-notes, tools: [notes__clear], effect: deny }
tests:
  - { call: notes__clear, expect: hide }
  - { call: notes__list, expect: allow }
";

/// Runs the notes on standard input and output.
pub(crate) fn serve_notes() {
    server::serve(&mut notes::Notes::new(), &mut stdio::Pipe::standard());
}

/// Runs the demo until a signal. `print` shows what to do with it.
pub(crate) fn run(port: Option<u16>, print: &dyn Fn(&str)) -> Result<(), Failure> {
    let folder = Folder::make()
        .map_err(|error| Failure::system(format!("cannot make a folder for the demo: {error}")))?;
    run::on_runtime(async {
        let doors = bind(port, print).await?;
        let clock = listen::bind((Ipv4Addr::LOCALHOST, 0).into(), "the demo's clock").await?;
        let places = Places {
            clients: address(&doors.clients)?,
            operators: address(&doors.operators)?,
            clock: address(&clock)?,
        };
        let path = folder
            .write_config(&places, &run::this_program()?)
            .map_err(|error| Failure::system(format!("cannot write the demo's configuration: {error}")))?;
        let (loaded, texts) = cli::read(&path)?;
        let (config, reload) = (loaded.config, Reload::new(path, texts)?);
        let state_dir = config.state_dir.clone();
        let key = make_key(&state_dir)
            .await
            .map_err(|error| Failure::system(format!("cannot make the demo's API key: {error}")))?;
        let site = Arc::new(http::ClockSite::new(Allowed::for_operators(&config)));
        tokio::select! {
            ended = run::run(config, reload, doors, || print(&welcome(&places, &state_dir, &key))) => ended,
            () = listen::serve(clock, site, Terms::plain(http::CONNECTIONS), Stop::default()) => {
                Err(Failure::system("the demo's clock ended unexpectedly: the log says why"))
            }
        }
    })
}

/// The addresses of the demo.
struct Places {
    clients: SocketAddr,
    operators: SocketAddr,
    clock: SocketAddr,
}

fn address(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(|error| Failure::system(format!("cannot tell the address: {error}")))
}

/// The key of the demo's only principal. It is made before the gateway has the state folder.
async fn make_key(state_dir: &Path) -> Result<Secret, TokensError> {
    let tokens = Tokens::open(state_dir).await?;
    let wanted = KeyRequest {
        tenant: TENANT.to_owned(),
        name: "demo".to_owned(),
        principal: "you".to_owned(),
        groups: Vec::new(),
        scopes: Vec::new(),
        servers: None,
        expires_in: None,
    };
    let made = tokens.create_key(wanted).await;
    tokens.close().await;
    Ok(made?.key)
}

/// A port that was asked for must be free; the usual ones may be taken, and then any will do.
async fn bind(port: Option<u16>, print: &dyn Fn(&str)) -> Result<Doors, Failure> {
    let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let open = async |clients: u16, operators: u16| {
        Ok(Doors {
            clients: listen::bind(at(clients), "`--port`").await?,
            operators: listen::bind(at(operators), "`--port`").await?,
        })
    };
    if let Some(port) = port {
        return open(port, port + 1).await;
    }
    match open(PORT, PORT + 1).await {
        Ok(doors) => Ok(doors),
        Err(_) => {
            print(&format!("Port {PORT} or {} is taken: using free ones instead.\n", PORT + 1));
            open(0, 0).await
        }
    }
}

/// What a newcomer needs: addresses, a snippet for a client, one line for a shell. The key is shown here and nowhere
/// else.
fn welcome(places: &Places, state_dir: &Path, key: &Secret) -> String {
    let Places { clients, operators, .. } = places;
    let url = format!("http://{clients}/mcp");
    let authorization = format!("Bearer {}", key.expose());
    format!(
        r#"Portcullis demo: one door, two built-in MCP servers behind it:
notes, a program (stdio), and clock, over HTTP. A rule keeps notes__clear from
everybody: no list shows it, and who calls it is told that there is no such tool.

  MCP     {url}
  Status  portcullis status --admin http://{operators} --state-dir {}

Paste this into the settings of an MCP client:

{{
  "mcpServers": {{
    "portcullis": {{
      "type": "http",
      "url": "{url}",
      "headers": {{ "Authorization": "{authorization}" }}
    }}
  }}
}}

Or call a tool right away, from another terminal:

  {}

Ctrl-C ends it; nothing is kept.
"#,
        state_dir.display(),
        call_line(&url, &authorization)
    )
}

/// One line for any shell with curl. MCP wants a handshake first: the inner command opens a session and hands its id
/// to the outer one.
fn call_line(url: &str, authorization: &str) -> String {
    let post =
        format!("curl -sS {url} -H 'Content-Type: application/json' -H 'Authorization: {authorization}'");
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}"#;
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"clock__now","arguments":{"offset":"+02:00"}}}"#;
    format!(
        "{post} -H \"Mcp-Session-Id: $({post} -d '{hello}' -o /dev/null -D - | sed -n 's/^mcp-session-id: //p' | tr -d '\\r')\" -d '{call}'"
    )
}

/// A private folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn make() -> io::Result<Folder> {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let name = format!("portcullis-demo-{}-{:x}", std::process::id(), now.as_nanos());
        let path = std::env::temp_dir().join(name);
        // Fails when somebody made it before us, so nobody else can own it or look into it.
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder(path))
    }

    /// Writes the configuration that a person would write, and returns its main file.
    fn write_config(&self, places: &Places, program: &Path) -> io::Result<PathBuf> {
        let Places { clients, operators, clock } = places;
        // JSON strings are YAML strings.
        let quote = |path: &Path| wire::quote(&path.to_string_lossy());
        let (state, program) = (quote(&self.0.join("state")), quote(program));
        let main = self.0.join("portcullis.yaml");
        let process = format!(
            "listen: {clients}\nadmin: {{ listen: \"{operators}\" }}\nstate_dir: {state}\ntenants: tenants/*.yaml\n"
        );
        let tenant = format!(
            r#"tenant: {TENANT}
identity: {{ keys: true }}
policies: [policies/demo.yaml]
upstreams:
  notes: {{ command: {program}, args: [__demo-notes], share: tenant, trust: trusted }}
  clock: {{ url: "http://{clock}/mcp", share: tenant, trust: trusted }}
"#
        );
        for folder in ["tenants", "policies"] {
            fs::DirBuilder::new().mode(0o700).create(self.0.join(folder))?;
        }
        let (tenant_file, policy_file) =
            (self.0.join("tenants/demo.yaml"), self.0.join("policies/demo.yaml"));
        for (path, text) in [(&main, process), (&tenant_file, tenant), (&policy_file, POLICY.to_owned())] {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(text.as_bytes())?;
        }
        Ok(main)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "cannot remove the demo's folder");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_welcome_holds_a_line_to_paste() {
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let places = Places { clients: at(7420), operators: at(7421), clock: at(7422) };
        let welcome = welcome(&places, Path::new("/tmp/x/state"), &Secret::new("pck_x".to_owned()));
        let line = welcome.lines().find(|line| line.trim().starts_with("curl ")).unwrap();
        assert!(line.contains("http://127.0.0.1:7420/mcp") && line.contains("clock__now"), "{line}");
        assert_eq!(line.matches("-H 'Authorization: Bearer pck_x'").count(), 2, "{line}");
        let snippet: String =
            welcome.lines().skip_while(|line| *line != "{").take_while(|line| !line.is_empty()).collect();
        let snippet: serde_json::Value = serde_json::from_str(&snippet).unwrap();
        let server = &snippet["mcpServers"]["portcullis"];
        assert_eq!(
            (&server["type"], &server["headers"]["Authorization"]),
            (&"http".into(), &"Bearer pck_x".into())
        );
        assert!(!welcome.contains("7422"), "nobody needs the clock's own address: {welcome}");
    }

    #[test]
    fn the_folder_is_private_and_goes_with_the_demo() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::make().unwrap();
        let path = folder.0.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn the_demo_s_configuration_is_one_that_loads() {
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = Folder::make().unwrap();
        let places = Places { clients: at(1), operators: at(2), clock: at(3) };
        let path = folder.write_config(&places, &std::env::current_exe().unwrap()).unwrap();
        let config = cli::load(&path).unwrap().config;
        assert_eq!(config.tenants.len(), 1);
        assert_eq!(config.tenants[0].upstreams.len(), 2);
        assert!(config.tenants[0].identity.as_ref().unwrap().keys);
        assert!(config.state_dir.starts_with(&folder.0));
    }
}
