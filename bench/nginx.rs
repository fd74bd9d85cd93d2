//! The plain proxy that the gateway is compared with: nginx as it is, with the configuration beside this file.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    failure::Failure,
    process::{Process, children},
};

const CONFIG: &str = include_str!("nginx.conf");

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running nginx.
#[derive(Debug)]
pub(crate) struct Nginx {
    process: Process,
    address: SocketAddr,
}

impl Nginx {
    /// Starts one in front of this port.
    pub(crate) fn start(folder: &Path, upstream: u16) -> Result<Nginx, Failure> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let config = CONFIG
            .replace("{folder}", &folder.to_string_lossy())
            .replace("{upstream}", &upstream.to_string())
            .replace("{listen}", &address.port().to_string());
        let path = folder.join("nginx.conf");
        fs::write(&path, config)?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&path).arg("-e").arg(folder.join("nginx-error.log"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = Process::start(&mut command)?;
        process.until("nginx", PATIENCE, || TcpStream::connect(address).ok())?;
        Ok(Nginx { process, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Master and workers.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut pids = children(self.process.pid());
        pids.push(self.process.pid());
        pids
    }
}

/// What it calls itself.
pub(crate) fn version() -> String {
    let output = Command::new("nginx").arg("-v").output().map(|output| output.stderr).unwrap_or_default();
    let text = String::from_utf8_lossy(&output).trim().to_owned();
    text.strip_prefix("nginx version: ").map_or(text.clone(), str::to_owned)
}

/// A port of loopback that is free now.
pub(crate) fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
