//! The process: `portcullis.yaml`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::Checker;
use crate::address::Address;
use crate::choice::Mode;
use crate::model::{Audit, AuditSink, Config, Limits, SessionLimits};
use crate::problem::Place;
use crate::raw;
use crate::reader::At;

impl Checker<'_> {
    /// All but the tenants. Relative paths begin at the folder of the main file.
    pub(super) fn process(&mut self, raw: &raw::Process, folder: &Path) -> Config {
        let admin = raw.admin();
        // All of its keys are refused when they are read: nothing of it is left to act on.
        let raw::Telemetry {} = raw.telemetry();
        self.loopback(raw.listen.as_ref());
        self.loopback(admin.listen.as_ref());
        self.two_addresses(raw, &admin);
        let state_dir = tidy(&folder.join(raw.state_dir().0));
        let limits = raw.limits();
        Config {
            listen: raw.listen().0,
            public_url: raw.public_url.as_ref().map(|url| url.0.clone()),
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
        }
    }

    /// Without a way to tell who asks, only this machine may.
    fn loopback(&mut self, address: Option<&At<Address>>) {
        let Some(address) = address.filter(|address| !address.value.0.ip().is_loopback()) else { return };
        let message = format!(
            "`{}` is not a loopback address, and without `identity` everyone who reaches it could call every tool",
            address.place.written()
        );
        self.error(
            &address.place,
            message,
            "listen on 127.0.0.1 or [::1]; `identity` is not available in this version",
        );
    }

    fn two_addresses(&mut self, raw: &raw::Process, admin: &raw::Admin) {
        let same = |one: SocketAddr, other: SocketAddr| one == other && one.port() != 0;
        let written = admin.listen.as_ref().or(raw.listen.as_ref());
        if let (true, Some(written)) = (same(raw.listen().0, admin.listen().0), written) {
            let message = "`listen` and `admin.listen` are the same address".to_owned();
            self.error(&written.place, message, "give the operator's side a port of its own, such as 7421");
        }
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

/// A path without final slash and doubled separators.
pub(super) fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}
