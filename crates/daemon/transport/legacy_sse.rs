//! HTTP+SSE, the transport of 2024-11-05: how its streams begin, and how messages name them. Everything else is as with
//! Streamable HTTP. Off unless the operator turns it on (spec S-10).

use std::fmt::Write as _;

use config::Config;
use gateway::{Endpoint, Listening};
use http::Uri;
use wire::sse;

/// What the key of a connection is called in the address of its messages.
const KEY: &str = "key=";

/// What stands before our paths where clients see them: the path of the public URL.
pub(crate) fn prefix(config: &Config) -> String {
    let path = config.public_url.as_ref().map_or("", |url| url.path());
    path.trim_end_matches('/').to_owned()
}

/// The key that an address names.
pub(crate) fn key(uri: &Uri) -> Option<Box<str>> {
    uri.query()?.split('&').find_map(|part| part.strip_prefix(KEY)).map(Into::into)
}

/// Says first where messages go, on a stream of this transport (spec S-02).
pub(crate) fn introduce(listening: &mut Listening, prefix: &str) {
    let Some((endpoint, key)) = listening.connection() else { return };
    let event = sse::endpoint(&messages(prefix, endpoint, key));
    listening.begin_with(event);
}

/// Where the messages of a connection go. It has no host: clients refuse one that is not their own (spec S-08), and some
/// understand nothing but a whole path.
fn messages(prefix: &str, endpoint: &Endpoint, key: &str) -> String {
    let mut uri = prefix.to_owned();
    // Writing to a `String` cannot fail.
    if let Some(tenant) = &endpoint.tenant {
        let _ = write!(uri, "/t/{tenant}");
    }
    uri.push_str("/messages");
    if let Some(server) = &endpoint.server {
        let _ = write!(uri, "/{server}");
    }
    let _ = write!(uri, "?{KEY}{key}");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_where_the_stream_is_under_the_same_prefixes() {
        for (prefix, tenant, server, expected) in [
            ("", None, None, "/messages?key=k"),
            ("", None, Some("b"), "/messages/b?key=k"),
            ("", Some("a"), None, "/t/a/messages?key=k"),
            ("/gate", Some("a"), Some("b"), "/gate/t/a/messages/b?key=k"),
        ] {
            let endpoint = Endpoint {
                tenant: tenant.map(Into::into),
                server: server.map(Into::into),
                ..Endpoint::default()
            };
            let uri = messages(prefix, &endpoint, "k");
            assert_eq!(uri, expected);
            assert_eq!(key(&uri.parse().unwrap()).as_deref(), Some("k"));
        }
    }

    #[test]
    fn only_the_parameter_of_that_name_is_the_key() {
        for (uri, expected) in [
            ("/messages", None),
            ("/messages?", None),
            ("/messages?session_id=k", None),
            ("/messages?monkey=k", None),
            ("/messages?a=b&key=k", Some("k")),
            ("/messages?key=", Some("")),
        ] {
            assert_eq!(key(&uri.parse().unwrap()).as_deref(), expected, "{uri}");
        }
    }
}
