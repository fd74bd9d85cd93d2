//! An upstream that is reached by a URL.

use super::Checker;
use super::process::beside;
use crate::address::{Endpoint, is_loopback};
use crate::model::Transport;
use crate::problem::Place;
use crate::raw;
use crate::reader::At;
use crate::words::FilePath;

impl Checker<'_> {
    /// How the server is reached; `None` when it has no URL.
    pub(super) fn http(&mut self, raw: &At<raw::Upstream>) -> Option<Transport> {
        let url = raw.url.as_ref()?;
        self.in_the_clear(url, raw);
        let tls = raw.tls();
        self.certificate_and_key(&tls);
        if let (Some(tls), "http") = (&raw.tls, url.value.0.scheme()) {
            let hint = "write an https URL, or remove `tls`";
            self.error(&tls.place, "`tls` is for https, and the URL is http".to_owned(), hint);
        }
        let file = |file: &Option<At<FilePath>>| file.as_ref().map(|file| beside(&file.place, &file.value.0));
        Some(Transport::Http {
            url: url.value.0.clone(),
            credential: Box::new(self.credential(raw, &url.value.0)),
            ca: file(&tls.ca),
            cert: file(&tls.cert),
            key: file(&tls.key),
            proxy: raw.proxy.as_ref().map(|proxy| proxy.value.0.clone()),
            sse: raw.sse().0,
        })
    }

    /// Off this machine a plain connection hands calls and credentials to everybody on the way.
    fn in_the_clear(&mut self, url: &At<Endpoint>, raw: &At<raw::Upstream>) {
        let http = url.value.0.scheme() == "http";
        let accepted = raw.insecure.as_ref().filter(|insecure| insecure.value);
        if let (Some(At { place, .. }), false) = (accepted, http) {
            let message = "`insecure` changes nothing for an https URL: its certificate is always checked";
            self.warn(place, message.to_owned(), "remove it; an authority of your own goes into `tls.ca`");
        }
        if !http || is_loopback(&url.value.0) {
            return;
        }
        let written = url.place.written();
        if raw.insecure() {
            let message =
                format!("`{written}` is reached in the clear: all of it can be read and changed on the way");
            self.warn(&url.place, message, "use https as soon as the server has it");
        } else if !self.told(&url.place, &format!("{}.insecure", raw.place.path)) {
            let message = format!(
                "`{written}` is neither https nor on this machine: all of it could be read and changed on the way"
            );
            self.error(&url.place, message, "write https, or accept it with `insecure: true`");
        }
    }

    fn certificate_and_key(&mut self, tls: &raw::UpstreamTls) {
        let (cert, key) = (tls.cert.as_ref().map(|cert| &cert.place), tls.key.as_ref().map(|key| &key.place));
        let (place, missing): (&Place, &str) = match (cert, key) {
            (Some(_), Some(_)) | (None, None) => return,
            (Some(cert), None) => (cert, "key"),
            (None, Some(key)) => (key, "cert"),
        };
        let section = place.path.rsplit_once('.').map_or("", |(section, _)| section);
        if !self.told(place, &format!("{section}.{missing}")) {
            let message = format!("a certificate takes its private key: `{missing}` is missing");
            self.error(place, message, &format!("add `{missing}: FILE`"));
        }
    }

    /// Keys of a program beside a URL, and the other way round: they would do nothing.
    pub(super) fn misplaced(&mut self, raw: &raw::Upstream) {
        let (why, keys) = match (&raw.command, &raw.url) {
            (Some(_), None) => ("is for servers with a `url`, and this one is a program", of_servers(raw)),
            (None, Some(_)) => ("is for programs, and this server is reached by its `url`", of_programs(raw)),
            // Both or none of them is a problem that is already noted.
            (Some(_), Some(_)) | (None, None) => return,
        };
        for place in keys {
            let key = place.path.rsplit('.').next().unwrap_or_default();
            self.error(place, format!("`{key}` {why}"), "remove the key");
        }
    }
}

fn of_programs(raw: &raw::Upstream) -> Vec<&Place> {
    let raw::Upstream { args, env, dir, .. } = raw;
    let places = [place(args), place(env), place(dir)];
    places.into_iter().flatten().collect()
}

fn of_servers(raw: &raw::Upstream) -> Vec<&Place> {
    let raw::Upstream { insecure, credential, tls, proxy, sse, .. } = raw;
    let places = [place(insecure), place(credential), place(tls), place(proxy), place(sse)];
    places.into_iter().flatten().collect()
}

fn place<T>(written: &Option<At<T>>) -> Option<&Place> {
    written.as_ref().map(|written| &written.place)
}
