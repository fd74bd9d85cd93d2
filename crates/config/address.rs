//! Addresses, URLs, hosts and origins, each a type that cannot hold a wrong value.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::{Value, json};
use url::Url;

use crate::form::Form;
use crate::word::{Mistake, Word};

/// `127.0.0.1:7420`
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(pub(crate) SocketAddr);

impl Word for Address {
    // A bare port looks like a number and deserves the better advice.
    const PLAIN: &'static [&'static str] = &["text", "a number"];

    fn form() -> Form {
        Form::pattern("address", ".+:[0-9]+")
    }

    fn parse(text: &str) -> Result<Address, Mistake> {
        text.parse().map(Address).map_err(|_| {
            let port = text.rsplit(':').next().filter(|port| port.parse::<u16>().is_ok()).unwrap_or("7420");
            Mistake::new("is no address").hint(format!("write IP:PORT, for example `127.0.0.1:{port}`"))
        })
    }

    fn sample(&self) -> Value {
        json!(self.0.to_string())
    }
}

/// An `http` or `https` URL without query, fragment and credentials.
#[derive(Clone, Debug)]
pub(crate) struct HttpUrl(pub(crate) Url);

impl Word for HttpUrl {
    fn form() -> Form {
        Form::pattern("URL", "https?://.+")
    }

    fn parse(text: &str) -> Result<HttpUrl, Mistake> {
        let url = http_url(text, "https://mcp.example.com")?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Mistake::new("has a query or a fragment").hint("end it after the path"));
        }
        Ok(HttpUrl(url))
    }

    fn sample(&self) -> Value {
        json!(self.0.as_str())
    }
}

/// An `http` or `https` URL without credentials.
pub(crate) fn http_url(text: &str, example: &str) -> Result<Url, Mistake> {
    let hint = format!("write it like `{example}`");
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(why) => return Err(Mistake::new(format!("is no URL: {why}")).hint(hint)),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Mistake::new("is neither an http nor an https URL").hint(hint));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Mistake::new("holds credentials").hint("remove what stands before the `@`"));
    }
    Ok(url)
}

/// A `Host` value: a name or address, with or without a port.
#[derive(Clone, Debug)]
pub(crate) struct Host(pub(crate) String);

impl Word for Host {
    fn form() -> Form {
        Form::pattern("host", "[^/*]+")
    }

    fn parse(text: &str) -> Result<Host, Mistake> {
        let hint = "write a host name with or without a port, like `mcp.example.com:8443`";
        if text.contains(['*', '/', '?', '#', '@', '\\']) {
            return Err(Mistake::new("is no host").hint(hint));
        }
        let url =
            Url::parse(&format!("http://{text}/")).map_err(|_| Mistake::new("is no host").hint(hint))?;
        if url.host_str().is_none() {
            return Err(Mistake::new("is no host").hint(hint));
        }
        Ok(Host(text.to_lowercase()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// An `Origin` value.
#[derive(Clone, Debug)]
pub(crate) struct Origin(pub(crate) String);

impl Word for Origin {
    fn form() -> Form {
        Form::pattern("origin", "[a-z][a-z0-9+.-]*://[^/*]+")
    }

    fn parse(text: &str) -> Result<Origin, Mistake> {
        let wrong = || {
            Mistake::new("is no origin")
                .hint("write scheme, host and port only, like `https://chat.example.com`")
        };
        let url = Url::parse(text).map_err(|_| wrong())?;
        let bare =
            matches!(url.path(), "" | "/") && !text.ends_with('/') && !text.contains(['*', '@', '?', '#']);
        if !bare || url.host_str().is_none() {
            return Err(wrong());
        }
        let origin = url.origin();
        // Browser extensions have origins that the URL standard calls opaque.
        let written = if origin.is_tuple() { origin.ascii_serialization() } else { text.to_lowercase() };
        Ok(Origin(written))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// The URL of an upstream's endpoint. A query is part of it; secrets are not, since URLs end up in logs.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint(pub(crate) Url);

impl Word for Endpoint {
    fn form() -> Form {
        Form::pattern("URL", "https?://.+")
    }

    fn parse(text: &str) -> Result<Endpoint, Mistake> {
        let url = http_url(text, "https://mcp.example.com/mcp")?;
        if url.fragment().is_some() {
            return Err(Mistake::new("has a fragment").hint("end it before the `#`"));
        }
        Ok(Endpoint(url))
    }

    fn sample(&self) -> Value {
        json!(self.0.as_str())
    }
}

/// The URL of a proxy: http, host and port.
#[derive(Clone, Debug)]
pub(crate) struct ProxyUrl(pub(crate) Url);

impl Word for ProxyUrl {
    fn form() -> Form {
        Form::pattern("URL", "http://[^/]+/?")
    }

    fn parse(text: &str) -> Result<ProxyUrl, Mistake> {
        let url = http_url(text, "http://proxy.example.com:3128")?;
        if url.scheme() == "https" {
            let hint =
                "write http: what is sent to an https server is encrypted through the proxy all the same";
            return Err(Mistake::new("is https, and a proxy is spoken to over http").hint(hint));
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(Mistake::new("has a path, and a proxy has none").hint("end it after the port"));
        }
        Ok(ProxyUrl(url))
    }

    fn sample(&self) -> Value {
        json!(self.0.as_str())
    }
}

/// A network in CIDR form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network(pub(crate) IpNet);

impl Word for Network {
    fn form() -> Form {
        Form::pattern("network", ".+/[0-9]+")
    }

    fn parse(text: &str) -> Result<Network, Mistake> {
        if let Ok(address) = text.parse::<IpAddr>() {
            let hint = format!("write `{}` for this one machine", IpNet::from(address));
            return Err(Mistake::new("is an address, not a network").hint(hint));
        }
        let hint = "write ADDRESS/BITS, for example `10.0.0.0/8` or `fd00::/8`";
        let network: IpNet = text.parse().map_err(|_| Mistake::new("is no network").hint(hint))?;
        if let IpAddr::V6(address) = network.addr()
            && address.to_ipv4_mapped().is_some()
        {
            // Peers are compared as IPv4, so it would never match.
            return Err(Mistake::new("is an IPv4 network written as IPv6").hint("write it as IPv4"));
        }
        if network.addr() != network.network() {
            let hint = format!("write `{}`, or more bits", network.trunc());
            return Err(Mistake::new("has bits set beyond its length").hint(hint));
        }
        Ok(Network(network))
    }

    fn sample(&self) -> Value {
        json!(self.0.to_string())
    }
}

/// Whether a URL stays on this machine, whatever a name server says.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
