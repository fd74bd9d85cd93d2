//! Addresses, URLs, hosts and origins, each a type that cannot hold a wrong value.

use std::net::SocketAddr;

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
        let hint = "write it like `https://mcp.example.com`";
        let url = Url::parse(text).map_err(|why| Mistake::new(format!("is no URL: {why}")).hint(hint))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Mistake::new("is neither an http nor an https URL").hint(hint));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Mistake::new("has a query or a fragment").hint("end it after the path"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Mistake::new("holds credentials").hint("remove what stands before the `@`"));
        }
        Ok(HttpUrl(url))
    }

    fn sample(&self) -> Value {
        json!(self.0.as_str())
    }
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
