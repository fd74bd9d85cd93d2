//! The process: `portcullis.yaml`.

use std::path::{Path, PathBuf};

use ipnet::IpNet;

use super::Checker;
use crate::address::is_loopback;
use crate::choice::Mode;
use crate::model::{Audit, AuditSink, Config, Limits, ServerTls, SessionLimits};
use crate::problem::Place;
use crate::raw;
use crate::reader::At;

impl Checker<'_> {
    /// All but the tenants. Relative paths begin at the folder of the main file.
    pub(super) fn process(&mut self, raw: &raw::Process, folder: &Path) -> Config {
        let admin = raw.admin();
        // All of its keys are refused when they are read: nothing of it is left to act on.
        let raw::Telemetry {} = raw.telemetry();
        self.two_addresses(raw, &admin);
        self.operators_side(&admin);
        self.public_url(raw);
        let state_dir = tidy(&folder.join(raw.state_dir().0));
        let limits = raw.limits();
        Config {
            listen: raw.listen().0,
            public_url: raw.public_url.as_ref().map(|url| url.0.clone()),
            tls: raw.tls.as_ref().and_then(server_tls),
            http2: raw.http2(),
            legacy_sse: self.legacy_sse(raw),
            trusted_proxies: self.trusted_proxies(raw),
            admin: admin.listen().0,
            allowed_hosts: raw.allowed_hosts().into_iter().map(|host| host.value.0).collect(),
            allowed_origins: raw.allowed_origins().into_iter().map(|origin| origin.value.0).collect(),
            session: self.session(&raw.session()),
            keepalive: raw.keepalive().0,
            names_max: raw.names().max().0,
            limits: Limits {
                body: limits.body().0,
                result: limits.result().0,
                connections: limits.connections().0,
            },
            audit: self.audit(&raw.audit(), &state_dir),
            state_dir,
            list_timeout: raw.list_timeout().0,
            drain: raw.drain().0,
            tenants: Vec::new(),
            shared_issuers: Vec::new(),
        }
    }

    fn two_addresses(&mut self, raw: &raw::Process, admin: &raw::Admin) {
        let (clients, operators) = (raw.listen().0, admin.listen().0);
        let any = clients.ip().is_unspecified() || operators.ip().is_unspecified();
        let same = clients.port() == operators.port() && (any || clients.ip() == operators.ip());
        let written = admin.listen.as_ref().or(raw.listen.as_ref());
        // Port 0 is a free port each time.
        if let (true, Some(written)) = (same && clients.port() != 0, written) {
            let message = "`listen` and `admin.listen` are the same address".to_owned();
            self.error(&written.place, message, "give the operator's side a port of its own, such as 7421");
        }
    }

    fn operators_side(&mut self, admin: &raw::Admin) {
        let listen = admin.listen.as_ref().filter(|listen| !listen.value.0.ip().is_loopback());
        if let Some(At { place, .. }) = listen {
            let message = format!(
                "`{}` is not a loopback address: the operator's side can be reached from outside",
                place.written()
            );
            self.warn(
                place,
                message,
                "only `admin.key` protects it: keep its port within a network of yours",
            );
        }
    }

    /// Tokens are sent to this URL, so it should not be one that is read on the way.
    fn public_url(&mut self, raw: &raw::Process) {
        let Some(At { value, place }) = raw.public_url.as_ref().filter(|url| url.value.0.scheme() == "http")
        else {
            return;
        };
        let written = place.written();
        if raw.tls.is_some() {
            let message = format!("`{written}` is http, and with `tls` clients are answered over https only");
            self.warn(place, message, "write `https://` in front of it");
        } else if !is_loopback(&value.0) {
            let message = format!("tokens that are sent to `{written}` can be read on the way");
            self.warn(
                place,
                message,
                "serve https: by `tls`, or by a proxy in front, and write its URL here",
            );
        }
    }

    fn legacy_sse(&mut self, raw: &raw::Process) -> bool {
        if let Some(At { value: true, place }) = &raw.legacy_sse {
            let message =
                "HTTP+SSE is deprecated: its streams cannot be resumed, and a lost one ends every call on it";
            self.warn(
                place,
                message.to_owned(),
                "keep it for clients that can do no better; all others use `/mcp`",
            );
        }
        raw.legacy_sse()
    }

    fn trusted_proxies(&mut self, raw: &raw::Process) -> Vec<IpNet> {
        let networks = raw.trusted_proxies();
        for network in networks.iter().filter(|network| network.value.0.prefix_len() == 0) {
            let message = format!("`{}` lets every client say what its address is", network.place.written());
            self.warn(&network.place, message, "name the networks of your proxies only");
        }
        networks.into_iter().map(|network| network.value.0).collect()
    }

    fn session(&mut self, raw: &raw::Session) -> SessionLimits {
        let limits = SessionLimits {
            idle: raw.idle().0,
            absolute: raw.absolute().0,
            per_principal: raw.per_principal().0,
        };
        let written = raw.idle.as_ref().or(raw.absolute.as_ref());
        if let (true, Some(written)) = (limits.idle > limits.absolute, written) {
            let message = "`session.idle` is longer than `session.absolute`".to_owned();
            self.error(&written.place, message, "a session cannot idle for longer than it may live");
        }
        limits
    }

    fn audit(&mut self, raw: &raw::Audit, state_dir: &Path) -> Audit {
        // The only mode; a second one must decide here what it means.
        match raw.mode().0 {
            Mode::Strict => {}
        }
        let no_sink = raw.sinks.as_ref().filter(|sinks| sinks.value.is_empty());
        if let Some(At { place, .. }) = no_sink {
            let place: &Place = place;
            self.error(
                place,
                "no audit sink: without a record there is no call".to_owned(),
                "add `{ file: audit/ }`",
            );
        }
        let sinks = raw.sinks().into_iter().map(|sink| match sink.value {
            raw::Sink::File(folder) => AuditSink::File(tidy(&state_dir.join(folder.0))),
            raw::Sink::Stdout => AuditSink::Stdout,
        });
        Audit { sinks: sinks.collect(), durability: raw.durability().0 }
    }
}

fn server_tls(raw: &At<raw::ServerTls>) -> Option<ServerTls> {
    let (cert, key) = (raw.cert.as_ref()?, raw.key.as_ref()?);
    Some(ServerTls { cert: beside(&cert.place, &cert.value.0), key: beside(&key.place, &key.value.0) })
}

/// A path that is relative to the file it stands in.
pub(super) fn beside(place: &Place, path: &Path) -> PathBuf {
    tidy(&place.source.path.parent().unwrap_or(Path::new("")).join(path))
}

/// A path without final slash and doubled separators.
pub(super) fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}
