//! A gateway with eight tenants, each with an issuer of its own and the same three kinds of unruly servers.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    failure::Failure,
    gateway::{is_ready, log},
    nginx::free_port,
    process::{self, Process},
    request::Site,
    token::Issuer,
};

/// How long the gateway may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// How many tenants there are.
pub(crate) const TENANTS: usize = 8;

/// The servers of each tenant: over stdio, over HTTP, and over HTTP in the modern era.
pub(crate) const SERVERS: [&str; 3] = ["pipe", "web", "new"];

/// A running gateway and what stands behind it.
#[derive(Debug)]
pub(crate) struct Stand {
    // In this order: processes end before the folder goes.
    _gateway: Process,
    _web: Process,
    folder: TempDir,
    /// The endpoint of each tenant, with a token for it.
    pub(crate) sites: Vec<Site>,
}

/// What a server of a tenant calls itself.
pub(crate) fn name(tenant: usize, server: &str) -> String {
    format!("t{tenant}-{server}")
}

impl Stand {
    /// Writes a configuration and starts all.
    pub(crate) fn start(program: &Path) -> Result<Stand, Failure> {
        let folder = tempfile::Builder::new().prefix("portcullis-crossed-").tempdir()?;
        let ours = std::env::current_exe()?;
        let (web, port) = process::served(Command::new(&ours).arg("__unruly"))?;
        let (clients, operators) = (free_port()?, free_port()?);
        fs::create_dir(folder.path().join("tenants"))?;
        fs::write(
            folder.path().join("portcullis.yaml"),
            format!(
                "listen: 127.0.0.1:{clients}\nadmin: {{ listen: \"127.0.0.1:{operators}\" }}\nstate_dir: state\n\
                 tenants: tenants/*.yaml\naudit: {{ sinks: [stdout] }}\n"
            ),
        )?;
        let mut sites = Vec::new();
        for tenant in 0..TENANTS {
            let id = format!("t{tenant}");
            let issuer = Issuer::new(&format!("https://{id}.bench.example"))?;
            fs::write(folder.path().join(format!("{id}.json")), issuer.jwks())?;
            fs::write(folder.path().join(format!("tenants/{id}.yaml")), tenant_file(tenant, &ours, port))?;
            let path = format!("/t/{id}/mcp");
            let token = issuer.token(&format!("http://127.0.0.1:{clients}{path}"))?;
            let address = SocketAddr::from(([127, 0, 0, 1], clients));
            sites.push(Site { address, path, token, prefix: String::new() });
        }
        let mut command = Command::new(program);
        command.args(["serve", "--config"]).arg(folder.path().join("portcullis.yaml"));
        command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(folder.path().join("log"))?);
        let mut gateway = Process::start(&mut command)?;
        let operators = SocketAddr::from(([127, 0, 0, 1], operators));
        let ready = gateway.until("a ready gateway", PATIENCE, || is_ready(operators).then_some(()));
        ready.map_err(|failure| failure.of(&log(folder.path())))?;
        Ok(Stand { _gateway: gateway, _web: web, folder, sites })
    }

    /// The last lines that the gateway wrote to its log.
    pub(crate) fn log(&self) -> String {
        let text = log(self.folder.path());
        let lines: Vec<&str> = text.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

fn tenant_file(tenant: usize, program: &Path, port: u16) -> String {
    let program = program.to_string_lossy();
    let mut file = format!(
        "tenant: t{tenant}\nidentity:\n  issuers:\n    - issuer: https://t{tenant}.bench.example\n      \
         jwks: ../t{tenant}.json\n      algorithms: [EdDSA]\nupstreams:\n"
    );
    for server in SERVERS {
        let name = name(tenant, server);
        let place = match server {
            "pipe" => format!("command: \"{program}\"\n    args: [__unruly, {name}]"),
            "web" => format!("url: http://127.0.0.1:{port}/legacy/{name}"),
            _ => format!("url: http://127.0.0.1:{port}/modern/{name}"),
        };
        file += &format!("  {server}:\n    {place}\n    share: tenant\n    timeouts: {{ call: 3s }}\n");
    }
    // The load is a few calls again and again.
    file + "runaway: off\n"
}
