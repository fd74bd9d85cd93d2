//! Which `Host` and `Origin` may come in. Asked before anything else, so that a web page can reach a listener neither
//! by DNS rebinding nor by a plain cross-site request (spec H-02, H-03; security 27, 28; bug B60).

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
};

use config::Config;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header, request::Parts};

use crate::transport::refusal::Refusal;

/// The names one listener answers to, and the web origins whose pages may talk to it.
#[derive(Debug)]
pub(crate) struct Allowed {
    hosts: Vec<Host<'static>>,
    /// The listener is on loopback, so it is known by the loopback names too.
    loopback: bool,
    /// No origin is allowed unless it is listed, not even a loopback one: any local web server, and any page it is
    /// tricked into serving, would be let in otherwise.
    origins: Vec<Origin>,
}

/// A host as `Host` headers and configurations write it. Without a port it stands for any port.
#[derive(Debug)]
struct Host<'a> {
    /// Letter case does not matter.
    name: Cow<'a, str>,
    port: Option<u16>,
}

/// A web origin.
#[derive(Debug, PartialEq, Eq)]
enum Origin {
    /// Sandboxed pages and local files share it, so it says nothing about who asks.
    Null,
    Site {
        scheme: String,
        host: String,
        port: Option<u16>,
    },
}

impl Allowed {
    /// For the clients' listener: what is listed, and what the public URL says.
    pub(crate) fn for_clients(config: &Config) -> Allowed {
        let public = config.public_url.as_ref().and_then(|url| url.host_str());
        let mut allowed = Allowed::listed(config, config.listen);
        allowed.hosts.extend(public.and_then(Host::read).map(Host::kept));
        allowed
    }

    /// For the operators' listener: what is listed. It has no public URL.
    pub(crate) fn for_operators(config: &Config) -> Allowed {
        Allowed::listed(config, config.admin)
    }

    fn listed(config: &Config, listen: SocketAddr) -> Allowed {
        Allowed {
            hosts: config.allowed_hosts.iter().filter_map(|host| Host::read(host)).map(Host::kept).collect(),
            loopback: listen.ip().is_loopback(),
            origins: config.allowed_origins.iter().filter_map(|origin| Origin::read(origin)).collect(),
        }
    }

    /// Lets a request in, or refuses it. Returns the listed origin it came from, if a page sent it. `local` is the
    /// address of our end of the connection.
    pub(crate) fn admit(&self, head: &Parts, local: SocketAddr) -> Result<Option<HeaderValue>, Refusal> {
        let written = match (single(&head.headers, &header::HOST)?, head.uri.authority()) {
            (Some(host), _) => host.to_str().ok(),
            // There the target says it.
            (None, Some(target)) if head.version == Version::HTTP_2 => Some(target.as_str()),
            (None, _) => None,
        };
        let host = written.and_then(Host::read).ok_or_else(no_host)?;
        let agrees = |target: &str| Host::read(target).is_some_and(|target| target.is(&host));
        if head.uri.authority().is_some_and(|target| !agrees(target.as_str())) {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "the request target and `Host` name different hosts",
            ));
        }
        if !self.knows(&host, local.ip()) {
            let name = host.name.to_ascii_lowercase();
            let message =
                format!("host `{name}` is not served here: the operator can add it to `allowed_hosts`");
            return Err(Refusal::new(StatusCode::FORBIDDEN, message));
        }
        self.admit_origin(&head.headers)
    }

    fn knows(&self, host: &Host<'_>, local: IpAddr) -> bool {
        let listed = |known: &Host<'_>| {
            known.is_named(&host.name) && (known.port.is_none() || known.port == host.port)
        };
        self.hosts.iter().any(listed)
            || (self.loopback && ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| host.is_named(name)))
            // The literal address that was really reached needs no name service, so nothing can be rebound. Health
            // probes of a cluster come by it.
            || host.address() == Some(local)
    }

    fn admit_origin(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
        let Some(written) = single(headers, &header::ORIGIN)? else { return Ok(None) };
        let origin = written.to_str().ok().and_then(Origin::read);
        if origin.is_some_and(|origin| self.origins.contains(&origin)) {
            return Ok(Some(written.clone()));
        }
        let shown = String::from_utf8_lossy(written.as_bytes());
        let shown: String = shown.chars().take(100).collect();
        let message =
            format!("origin `{shown}` is not allowed: the operator can add it to `allowed_origins`");
        Err(Refusal::new(StatusCode::FORBIDDEN, message))
    }
}

impl Host<'_> {
    /// Reads `name`, `name:port`, `[v6]` or `[v6]:port`.
    fn read(text: &str) -> Option<Host<'_>> {
        let name_ends =
            if text.starts_with('[') { text.find(']')? + 1 } else { text.find(':').unwrap_or(text.len()) };
        let (name, rest) = text.split_at_checked(name_ends)?;
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(port.parse().ok().filter(|_| port.bytes().all(|b| b.is_ascii_digit()))?),
            None if rest.is_empty() => None,
            None => return None,
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'[' | b':' | b']');
        (!name.is_empty() && name.bytes().all(plain)).then_some(Host { name: name.into(), port })
    }

    fn kept(self) -> Host<'static> {
        Host { name: self.name.into_owned().into(), port: self.port }
    }

    fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn is(&self, other: &Host<'_>) -> bool {
        self.is_named(&other.name) && self.port == other.port
    }

    fn address(&self) -> Option<IpAddr> {
        self.name.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

impl Origin {
    /// Reads `scheme://host[:port]` or `null`. A port that is the scheme's own may be written or not.
    fn read(text: &str) -> Option<Origin> {
        if text == "null" {
            return Some(Origin::Null);
        }
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let Host { name: host, port } = Host::read(rest)?;
        let usual = match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        Some(Origin::Site { scheme, host: host.to_ascii_lowercase(), port: port.or(usual) })
    }
}

/// The one value of a header that must not be sent twice: two parties may each believe another of them.
pub(crate) fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            format!("header `{name}` was sent more than once"),
        ));
    }
    Ok(first)
}

fn no_host() -> Refusal {
    Refusal::new(
        StatusCode::BAD_REQUEST,
        "`Host` is missing or malformed: send exactly one, `name` or `name:port`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(hosts: &[&str], origins: &[&str], listen: &str) -> Allowed {
        Allowed {
            hosts: hosts.iter().map(|host| Host::read(host).unwrap().kept()).collect(),
            loopback: listen.parse::<SocketAddr>().unwrap().ip().is_loopback(),
            origins: origins.iter().map(|origin| Origin::read(origin).unwrap()).collect(),
        }
    }

    /// The status of the refusal, 200 for none.
    fn asked(allowed: &Allowed, target: &str, headers: &[(HeaderName, &str)]) -> u16 {
        asked_in(Version::HTTP_11, allowed, target, headers)
    }

    fn asked_in(version: Version, allowed: &Allowed, target: &str, headers: &[(HeaderName, &str)]) -> u16 {
        let mut request = http::Request::new(());
        *request.uri_mut() = target.parse().unwrap();
        *request.version_mut() = version;
        request.headers_mut().extend(
            headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())),
        );
        let local = "127.0.0.1:7420".parse().unwrap();
        match allowed.admit(&request.into_parts().0, local) {
            Ok(_) => 200,
            Err(refusal) => refusal.status(),
        }
    }

    #[test]
    fn a_host_is_served_when_it_is_listed_or_means_this_machine() {
        let loopback = allowed(&["mcp.example.com", "other.example:8443"], &[], "127.0.0.1:7420");
        let open = allowed(&["mcp.example.com"], &[], "0.0.0.0:7420");
        for (host, on_loopback, in_the_open) in [
            ("mcp.example.com", 200, 200),
            ("MCP.Example.com:443", 200, 200),
            ("other.example:8443", 200, 403),
            ("other.example", 403, 403),
            ("localhost", 200, 403),
            ("localhost:9", 200, 403),
            ("127.0.0.1:7420", 200, 200),
            ("127.0.0.2:7420", 403, 403),
            ("[::1]:7420", 200, 403),
            ("evil.example", 403, 403),
            ("mcp.example.com.evil.net", 403, 403),
            ("mcp.example.com.", 403, 403),
            ("localhost.evil.net", 403, 403),
            ("user@localhost", 400, 400),
            ("localhost:", 400, 400),
            ("localhost:+80", 400, 400),
            ("localhost:99999", 400, 400),
            ("localhost/", 400, 400),
            ("a, localhost", 400, 400),
            ("[::1", 400, 400),
            ("", 400, 400),
        ] {
            assert_eq!(asked(&loopback, "/mcp", &[(header::HOST, host)]), on_loopback, "{host} on loopback");
            assert_eq!(asked(&open, "/mcp", &[(header::HOST, host)]), in_the_open, "{host} in the open");
        }
    }

    #[test]
    fn there_is_exactly_one_host_and_the_target_agrees_with_it() {
        let allowed = allowed(&["mcp.example.com"], &[], "127.0.0.1:7420");
        let here = (header::HOST, "localhost:7420");
        let there = (header::HOST, "mcp.example.com");
        assert_eq!(asked(&allowed, "/mcp", &[]), 400);
        assert_eq!(asked(&allowed, "/mcp", &[here.clone(), there.clone()]), 400);
        assert_eq!(asked(&allowed, "/mcp", &[here.clone(), here.clone()]), 400);
        assert_eq!(asked(&allowed, "http://localhost:7420/mcp", std::slice::from_ref(&here)), 200);
        assert_eq!(asked(&allowed, "http://LOCALHOST:7420/mcp", std::slice::from_ref(&here)), 200);
        assert_eq!(asked(&allowed, "http://mcp.example.com/mcp", std::slice::from_ref(&here)), 400);
        assert_eq!(asked(&allowed, "http://me@localhost:7420/mcp", std::slice::from_ref(&here)), 400);
        assert_eq!(asked(&allowed, "http://localhost:7420/mcp", &[]), 400);
        let two = |target, headers: &[_]| asked_in(Version::HTTP_2, &allowed, target, headers);
        assert_eq!(two("http://localhost:7420/mcp", &[]), 200);
        assert_eq!(two("http://localhost:7420/mcp", &[here]), 200);
        assert_eq!(two("http://localhost:7420/mcp", &[there]), 400);
        assert_eq!(two("http://evil.example/mcp", &[]), 403);
        assert_eq!(two("/mcp", &[]), 400);
    }

    #[test]
    fn an_origin_must_be_listed_to_the_letter() {
        let some = allowed(&[], &["https://App.example.com", "http://localhost:6274"], "127.0.0.1:7420");
        for (origin, status) in [
            ("https://app.example.com", 200),
            ("https://app.example.com:443", 200),
            ("http://localhost:6274", 200),
            ("http://app.example.com", 403),
            ("https://app.example.com:8443", 403),
            ("https://app.example.com.evil.net", 403),
            ("https://app.example.com/", 403),
            ("https://evil@app.example.com", 403),
            ("http://localhost:7420", 403),
            ("http://127.0.0.1:6274", 403),
            ("null", 403),
            ("", 403),
        ] {
            let headers = [(header::HOST, "localhost"), (header::ORIGIN, origin)];
            assert_eq!(asked(&some, "/mcp", &headers), status, "{origin}");
        }
        let with_null = allowed(&[], &["null"], "127.0.0.1:7420");
        assert_eq!(asked(&with_null, "/mcp", &[(header::HOST, "localhost"), (header::ORIGIN, "null")]), 200);
        assert_eq!(asked(&with_null, "/mcp", &[(header::HOST, "localhost")]), 200);
    }
}
