//! A further proxy, already running, that is measured in turn with the others: `NAME=URL[,pid=N][,token=TEXT]`.

use std::{net::ToSocketAddrs as _, str::FromStr};

use crate::request::Site;

/// One that runs already.
#[derive(Clone, Debug)]
pub(crate) struct Against {
    pub(crate) name: String,
    pub(crate) site: Site,
    /// Its process, for its time on the processor.
    pub(crate) pid: Option<u32>,
}

impl FromStr for Against {
    type Err = String;

    fn from_str(text: &str) -> Result<Against, String> {
        let (name, rest) = text.split_once('=').ok_or("write NAME=URL")?;
        let mut parts = rest.split(',');
        let url = parts.next().unwrap_or_default();
        let inside = url.strip_prefix("http://").ok_or("the URL begins with http://")?;
        let slash = inside.find('/').unwrap_or(inside.len());
        let (authority, path) = inside.split_at_checked(slash).unwrap_or((inside, ""));
        let mut addresses = authority.to_socket_addrs().map_err(|error| format!("`{authority}`: {error}"))?;
        // Proxies on this machine listen on IPv4 more often than not.
        let address = addresses.clone().find(|address| address.is_ipv4()).or_else(|| addresses.next());
        let address = address.ok_or_else(|| format!("`{authority}` has no address"))?;
        let (mut pid, mut token) = (None, String::new());
        for part in parts {
            match part.split_once('=') {
                Some(("pid", number)) => pid = Some(number.parse().map_err(|_| format!("pid `{number}`"))?),
                Some(("token", text)) => token = text.to_owned(),
                Some(_) | None => return Err(format!("`{part}` is neither pid=N nor token=TEXT")),
            }
        }
        let path = if path.is_empty() { "/" } else { path };
        let site = Site { address, path: path.to_owned(), token, prefix: String::new() };
        Ok(Against { name: name.to_owned(), site, pid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_a_url_and_what_may_follow_are_read() {
        let against: Against = "other=http://127.0.0.1:80/mcp,pid=7,token=abc".parse().unwrap();
        assert_eq!((against.name.as_str(), against.pid), ("other", Some(7)));
        assert_eq!((against.site.path.as_str(), against.site.token.as_str()), ("/mcp", "abc"));
        for text in ["other", "other=https://x/", "other=http://127.0.0.1/mcp", "o=http://127.0.0.1:1/,x=1"] {
            assert!(text.parse::<Against>().is_err(), "{text}");
        }
    }
}
