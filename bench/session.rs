//! Conversations: what a client says before its first request, and streams that only listen.

use crate::{
    ask,
    connection::Connection,
    failure::Failure,
    json,
    request::{self, Body, FIRST, Site},
    service::Era,
};

/// Begins a conversation; the id of its session, where the server gives one. The modern era needs none.
pub(crate) async fn open(
    connection: &mut Connection,
    site: &Site,
    era: Era,
) -> Result<Option<String>, Failure> {
    if era == Era::Modern {
        return Ok(None);
    }
    let hello = concat!(
        r#""protocolVersion":"2025-11-25","capabilities":{},"#,
        r#""clientInfo":{"name":"bench","version":"1"}"#
    );
    let asked = request::request(site, era, None, &Body { method: "initialize", tool: "", members: hello });
    let message = connection.exchange_once(&asked).await?;
    ask::answers(&message, FIRST.to_string().as_bytes()).map_err(|failure| failure.of("initialize"))?;
    let session = message.header("mcp-session-id").map(str::to_owned);
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let message = connection.exchange_once(&request::post(site, era, session.as_deref(), "", ready)).await?;
    match message.status() {
        202 => Ok(session),
        _ => Err(Failure::new(format!("instead of 202 for `initialized` came {}", message.beginning()))),
    }
}

/// A stream that listens in a session until it is dropped.
pub(crate) async fn listen(site: &Site, session: &str) -> Result<Connection, Failure> {
    let mut connection = Connection::open(site.address).await?;
    let head = request::head(site, "GET", "text/event-stream", Some(session));
    let message =
        connection.begin(format!("{head}MCP-Protocol-Version: 2025-11-25\r\n\r\n").as_bytes()).await?;
    match message.status() {
        200 => Ok(connection),
        _ => Err(Failure::new(format!("instead of an event stream came {}", message.beginning()))),
    }
}

/// What stands before the names of the tools at this endpoint, seen from the one that ends in `echo`.
pub(crate) async fn prefix(site: &Site, era: Era) -> Result<String, Failure> {
    let mut connection = Connection::open(site.address).await?;
    let session = open(&mut connection, site, era).await?;
    let list = Body { method: "tools/list", tool: "", members: "" };
    let asked = request::request(site, era, session.as_deref(), &list);
    let message = connection.exchange_once(&asked).await?;
    let mut rest = message.body;
    while let Some(after) = json::after(rest, "name") {
        let name = json::string(rest, "name").unwrap_or_default();
        if let Some(prefix) = name.strip_suffix(b"echo") {
            return Ok(String::from_utf8_lossy(prefix).into_owned());
        }
        rest = after;
    }
    Err(Failure::new(format!("instead of a list with a tool `echo` came {}", message.beginning())))
}
