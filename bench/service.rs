//! What the echo answers: everything rendered beforehand but the id and the echoed text.

use hyper::StatusCode;

use crate::json;

/// Bytes of text in a result of the tool `big`.
pub(crate) const BIG: usize = 1024 * 1024;

/// The session id that a server with sessions gives to everybody.
pub(crate) const SESSION: &str = "bench-0f2c41d8";

/// Which revision is spoken. Over one connection it is only one, so that nobody chooses between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl Era {
    /// The HTTP status beside the error that a method is unknown.
    pub(crate) fn status_of_unknown(self) -> StatusCode {
        match self {
            Era::Legacy => StatusCode::OK,
            Era::Modern => StatusCode::NOT_FOUND,
        }
    }
}

/// What a message got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A result; after `initialize` it opens a session.
    Result { opens: bool },
    /// An error: there is no such method here.
    Unknown,
    /// Nothing: it was no request.
    Nothing,
}

/// One server with a number of tools: `echo`, `big` and others that nobody calls.
#[derive(Debug)]
pub(crate) struct Service {
    era: Era,
    tools: String,
    big: String,
}

impl Service {
    /// With so many tools.
    pub(crate) fn new(era: Era, tools: usize) -> Service {
        let names = ["echo".to_owned(), "big".to_owned()].into_iter();
        let names = names.chain((2..).map(|number| format!("tool_{number:04}"))).take(tools);
        let tools: Vec<String> = names.map(|name| tool(&name)).collect();
        Service { era, tools: tools.join(","), big: filler() }
    }

    /// The revision it speaks.
    pub(crate) fn era(&self) -> Era {
        self.era
    }

    /// Writes the answer to one message, if it gets one.
    pub(crate) fn answer(&self, message: &[u8], out: &mut Vec<u8>) -> Said {
        let method = json::string(message, "method").unwrap_or_default();
        let Some(id) = json::scalar(message, "id").filter(|_| !method.starts_with(b"notifications/")) else {
            return Said::Nothing;
        };
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id);
        let said = self.result(method, message, out);
        out.push(b'}');
        said
    }

    fn result(&self, method: &[u8], message: &[u8], out: &mut Vec<u8>) -> Said {
        let mut push = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        match (method, self.era) {
            (b"tools/call", _) => {
                let big = json::string(message, "name") == Some(b"big");
                let text =
                    if big { self.big.as_bytes() } else { json::string(message, "text").unwrap_or_default() };
                push(&[br#","result":{"content":[{"type":"text","text":""#, text, br#""}],"isError":false"#]);
                push(&[self.complete(), b"}"]);
            }
            (b"tools/list", _) => {
                push(&[
                    br#","result":{"tools":["#,
                    self.tools.as_bytes(),
                    b"]",
                    self.complete(),
                    self.fresh(),
                    b"}",
                ]);
            }
            (b"ping", Era::Legacy) => push(&[br#","result":{}"#]),
            (b"initialize", Era::Legacy) => {
                push(&[br#","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"#]);
                push(&[br#""serverInfo":{"name":"echo","version":"1"}}"#]);
                return Said::Result { opens: true };
            }
            (b"server/discover", Era::Modern) => {
                push(&[br#","result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"#]);
                push(&[br#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"echo","version":"1"}}"#]);
                push(&[self.complete(), self.fresh(), b"}"]);
            }
            _ => {
                push(&[br#","error":{"code":-32601,"message":"no such method"}"#]);
                return Said::Unknown;
            }
        }
        Said::Result { opens: false }
    }

    /// What every modern result says of itself.
    pub(crate) fn complete(&self) -> &'static [u8] {
        match self.era {
            Era::Legacy => b"",
            Era::Modern => br#","resultType":"complete""#,
        }
    }

    /// How long a modern list may be kept.
    fn fresh(&self) -> &'static [u8] {
        match self.era {
            Era::Legacy => b"",
            Era::Modern => br#","ttlMs":0,"cacheScope":"private""#,
        }
    }
}

/// The text of a big result, which whoever asks compares.
pub(crate) fn filler() -> String {
    "0123456789abcdef".repeat(BIG / 16)
}

fn tool(name: &str) -> String {
    format!(
        concat!(
            r#"{{"name":"{name}","title":"The tool {name}","description":"Does what {name} is there for, and says "#,
            r#"the text again.","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string","#,
            r#""description":"What is said."}}}},"required":["text"]}}}}"#
        ),
        name = name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(era: Era, message: &str) -> (Said, String) {
        let mut out = Vec::new();
        let said = Service::new(era, 3).answer(message.as_bytes(), &mut out);
        (said, String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_is_answered_is_json_with_the_id_and_the_text() {
        let call = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}"#;
        for era in [Era::Legacy, Era::Modern] {
            let (said, text) = says(era, call);
            let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!((said, &answer["id"]), (Said::Result { opens: false }, &"x".into()));
            assert_eq!(answer["result"]["content"][0]["text"], "hi");
            let (_, text) = says(era, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
            let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 3);
        }
    }

    #[test]
    fn each_era_has_its_own_beginning() {
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}"#;
        assert_eq!(says(Era::Legacy, initialize).0, Said::Result { opens: true });
        assert_eq!(says(Era::Legacy, discover).0, Said::Unknown);
        assert_eq!(says(Era::Modern, initialize).0, Said::Unknown);
        assert_eq!(says(Era::Modern, discover).0, Said::Result { opens: false });
        assert_eq!(
            says(Era::Legacy, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).0,
            Said::Nothing
        );
    }
}
