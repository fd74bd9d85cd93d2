//! A POST as a client of either era writes it, and where it goes.

use std::net::SocketAddr;

use crate::service::Era;

/// The first number of a request. All numbers have as many digits, so that lengths stay as rendered.
pub(crate) const FIRST: u64 = 1_000_000_000;

/// An endpoint, and as whom it is asked.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The path of its endpoint.
    pub(crate) path: String,
    /// The token to show; empty for none.
    pub(crate) token: String,
    /// What stands before the names of the tools.
    pub(crate) prefix: String,
}

/// What a request says, apart from what all of them say.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    pub(crate) method: &'a str,
    /// The tool that it names; empty for none.
    pub(crate) tool: &'a str,
    /// Further members of `params`.
    pub(crate) members: &'a str,
}

const META: &str = concat!(
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientCapabilities":{},"#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}"#
);

/// A whole request with the number [`FIRST`].
pub(crate) fn request(site: &Site, era: Era, session: Option<&str>, body: &Body<'_>) -> Vec<u8> {
    let name = if body.tool.is_empty() { String::new() } else { format!(r#""name":"{}""#, body.tool) };
    let meta = if era == Era::Modern { META } else { "" };
    let members = [name.as_str(), body.members, meta].into_iter().filter(|part| !part.is_empty());
    let params = members.collect::<Vec<_>>().join(",");
    let text =
        format!(r#"{{"jsonrpc":"2.0","id":{FIRST},"method":"{}","params":{{{params}}}}}"#, body.method);
    let mut more = String::new();
    if era == Era::Modern {
        more += &format!("Mcp-Method: {}\r\n", body.method);
        if !body.tool.is_empty() {
            more += &format!("Mcp-Name: {}\r\n", body.tool);
        }
    }
    post(site, era, session, &more, &text)
}

/// A POST with this body and these header lines.
pub(crate) fn post(site: &Site, era: Era, session: Option<&str>, more: &str, body: &str) -> Vec<u8> {
    let head = head(site, "POST", "application/json, text/event-stream", session);
    let version = match (era, session) {
        (Era::Modern, _) => "MCP-Protocol-Version: 2026-07-28\r\n",
        (Era::Legacy, Some(_)) => "MCP-Protocol-Version: 2025-11-25\r\n",
        (Era::Legacy, None) => "",
    };
    let length = body.len();
    let text = format!(
        "{head}{version}{more}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    text.into_bytes()
}

/// The first lines of every request.
pub(crate) fn head(site: &Site, verb: &str, accepts: &str, session: Option<&str>) -> String {
    let Site { address, path, token, .. } = site;
    let mut head = format!("{verb} {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accepts}\r\n");
    if !token.is_empty() {
        head += &format!("Authorization: Bearer {token}\r\n");
    }
    if let Some(session) = session {
        head += &format!("Mcp-Session-Id: {session}\r\n");
    }
    head
}
