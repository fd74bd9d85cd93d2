//! The gateway as a team would run it: tokens checked, every call written to the audit file, metrics on.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use memchr::memmem;
use tempfile::TempDir;

use crate::{
    ask::Work,
    connection::Connection,
    failure::Failure,
    load::{Asker, Demand},
    nginx::free_port,
    process::Process,
    regime::Regime,
    request::{self, Body, Site},
    service::Era,
    token::{ISSUER, Issuer},
};

/// How long it may take to start, or its upstream to be there.
const PATIENCE: Duration = Duration::from_secs(20);

/// The file of its rules.
const POLICY: &str = "policy.yaml";

/// A pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// What stands behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// A server at this URL.
    Url(String),
    /// The echo of this program on its standard input and output, with so many tools.
    Stdio(usize),
}

/// A running gateway.
#[derive(Debug)]
pub(crate) struct Gateway {
    // In this order: the process ends before its folder goes.
    process: Process,
    folder: TempDir,
    site: Site,
    /// From its start until it takes messages.
    pub(crate) started: Duration,
}

impl Gateway {
    /// Writes a configuration and starts one with it.
    pub(crate) fn start(program: &Path, upstream: &Upstream, regime: Regime) -> Result<Gateway, Failure> {
        let folder = tempfile::Builder::new().prefix("portcullis-bench-").tempdir()?;
        let (clients, operators) = (free_port()?, free_port()?);
        let issuer = Issuer::new(ISSUER)?;
        fs::create_dir(folder.path().join("tenants"))?;
        fs::write(folder.path().join("jwks.json"), issuer.jwks())?;
        fs::write(folder.path().join("portcullis.yaml"), process_file(clients, operators))?;
        fs::write(folder.path().join("tenants/bench.yaml"), tenant_file(upstream, regime)?)?;
        if let Some(policy) = regime.policy() {
            fs::write(folder.path().join(POLICY), policy)?;
        }
        let mut command = Command::new(program);
        command.args(["serve", "--config"]).arg(folder.path().join("portcullis.yaml"));
        command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(folder.path().join("log"))?);
        let begun = Instant::now();
        let mut process = Process::start(&mut command)?;
        let operators = SocketAddr::from(([127, 0, 0, 1], operators));
        let ready =
            process.until("a ready gateway", PATIENCE, || is_ready(operators).then(|| begun.elapsed()));
        let started = ready.map_err(|failure| failure.of(&log(folder.path())))?;
        let site = Site {
            address: SocketAddr::from(([127, 0, 0, 1], clients)),
            path: "/mcp".to_owned(),
            token: issuer.token(&format!("http://127.0.0.1:{clients}/mcp"))?,
            prefix: "echo__".to_owned(),
        };
        Ok(Gateway { process, folder, site, started })
    }

    /// Waits until it lists all tools of its upstream.
    pub(crate) async fn settled(&self, era: Era, tools: usize) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        let demand = Demand { era, work: Work::List(tools), connections: 1, sessions: 1 };
        loop {
            let listed = async {
                for mut asker in Asker::all(&self.site, demand).await? {
                    asker.ask_once().await?;
                }
                Ok(())
            };
            let listed: Result<(), Failure> = listed.await;
            match listed {
                Ok(()) => return Ok(()),
                Err(failure) if Instant::now() > end => return Err(failure.of(&log(self.folder.path()))),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Its endpoint, and a token for it.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// The process alone: what it starts is not counted.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Makes sure that what is measured is what is said: a stranger is refused, and the first call has two audit lines.
    pub(crate) async fn checked(&self, era: Era) -> Result<(), Failure> {
        let stranger = Site { token: String::new(), ..self.site.clone() };
        let ping = request::request(&stranger, era, None, &Body { method: "ping", tool: "", members: "" });
        let mut connection = Connection::open(stranger.address).await?;
        let answer = connection.exchange_once(&ping).await?;
        if answer.status() != 401 {
            return Err(Failure::new(format!("without a token came {} instead of 401", answer.beginning())));
        }
        let demand = Demand { era, work: Work::Echo, connections: 1, sessions: 1 };
        for mut asker in Asker::all(&self.site, demand).await? {
            asker.ask_once().await?;
            let end = Instant::now() + PATIENCE;
            // The second line is written after the answer.
            while self.audit_lines()? != (1, 1) {
                if Instant::now() > end {
                    let (intents, outcomes) = self.audit_lines()?;
                    let words =
                        format!("one call left {intents} intents and {outcomes} outcomes in the audit file");
                    return Err(Failure::new(words));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Audit lines of what left, before and after.
    fn audit_lines(&self) -> Result<(usize, usize), Failure> {
        let text = fs::read(self.folder.path().join("state/audit/audit.jsonl"))?;
        let lines = |kind: &str| memmem::find_iter(&text, format!(r#""line":"{kind}""#).as_bytes()).count();
        Ok((lines("intent"), lines("outcome")))
    }
}

fn process_file(clients: u16, operators: u16) -> String {
    format!(
        "# Caps are raised beyond their defaults for the rows with many sessions, streams and connections:\n\
         # `limits.connections` from 10000 and `session.per_principal` from 50. All else is as it comes.\n\
         listen: 127.0.0.1:{clients}\n\
         admin: {{ listen: \"127.0.0.1:{operators}\" }}\n\
         state_dir: state\n\
         tenants: tenants/*.yaml\n\
         limits: {{ connections: 16000 }}\n\
         session: {{ per_principal: 100000 }}\n\
         audit: {{ sinks: [{{ file: audit/ }}] }}\n"
    )
}

fn tenant_file(upstream: &Upstream, regime: Regime) -> Result<String, Failure> {
    let place = match upstream {
        Upstream::Url(url) => format!("    url: {url}\n"),
        Upstream::Stdio(tools) => {
            let program = std::env::current_exe()?;
            let program = program.to_string_lossy();
            format!("    command: \"{program}\"\n    args: [__echo, --stdio, --tools, \"{tools}\"]\n")
        }
    };
    Ok(format!(
        "tenant: bench\n\
         identity:\n  issuers:\n    - issuer: {ISSUER}\n      jwks: ../jwks.json\n      algorithms: [EdDSA]\n\
         upstreams:\n  echo:\n{place}    share: tenant\n{}",
        regime.of_tenant(POLICY)
    ))
}

pub(crate) fn is_ready(operators: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(operators)?;
        stream.write_all(
            format!("GET /readyz HTTP/1.1\r\nHost: {operators}\r\nConnection: close\r\n\r\n").as_bytes(),
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer.starts_with("HTTP/1.1 200"))
    };
    ask().unwrap_or(false)
}

pub(crate) fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}
