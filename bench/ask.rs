//! Requests rendered beforehand, of which only the number changes, and what their answers have to hold.

use std::ops::Range;

use memchr::memmem;

use crate::{
    connection::Connection,
    failure::Failure,
    http::Message,
    json,
    request::{Body, FIRST, Site, request},
    service::{BIG, Era, filler},
};

/// A list has no more pages; a server that always has one more ends here.
const PAGES: usize = 100;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A call that gives its text back.
    Echo,
    /// A call with a result of 1 MiB.
    Big,
    /// All pages of a list of so many tools.
    List(usize),
}

/// One request in the making.
#[derive(Debug)]
pub(crate) struct Query {
    bytes: Vec<u8>,
    /// Where the number stands.
    numbers: Vec<Range<usize>>,
    check: Check,
}

#[derive(Debug)]
enum Check {
    Echo,
    Big(String),
    List { tools: usize, next: Box<Next> },
}

/// What a further page is asked with.
#[derive(Debug)]
struct Next {
    site: Site,
    era: Era,
    session: Option<String>,
}

impl Query {
    /// For one session, or for none.
    pub(crate) fn new(site: &Site, era: Era, work: Work, session: Option<&str>) -> Query {
        let (method, tool, members) = match work {
            Work::Echo => (
                "tools/call",
                format!("{}echo", site.prefix),
                format!(r#""arguments":{{"text":"say {FIRST}"}}"#),
            ),
            // The number makes each another call: who says the same again and again is stopped.
            Work::Big => (
                "tools/call",
                format!("{}big", site.prefix),
                format!(r#""arguments":{{"text":"all {FIRST}"}}"#),
            ),
            Work::List(_) => ("tools/list", String::new(), String::new()),
        };
        let check = match work {
            Work::Echo => Check::Echo,
            Work::Big => Check::Big(filler()),
            Work::List(tools) => {
                let next = Next { site: site.clone(), era, session: session.map(str::to_owned) };
                Check::List { tools, next: Box::new(next) }
            }
        };
        let bytes = request(site, era, session, &Body { method, tool: &tool, members: &members });
        let digits = FIRST.to_string();
        let found = memmem::find_iter(&bytes, digits.as_bytes());
        let numbers = found.map(|at| at..at + digits.len()).collect();
        Query { bytes, numbers, check }
    }

    /// Asks with this number, reads the answer and checks it.
    pub(crate) async fn ask(&mut self, connection: &mut Connection, number: u64) -> Result<(), Failure> {
        let digits = self.set(number);
        let mut message = connection.exchange(&self.bytes).await?;
        let (mut found, mut pages) = (0, 1);
        let Check::List { tools, next } = &self.check else {
            return self.check.one(&message, digits.as_bytes());
        };
        loop {
            answers(&message, digits.as_bytes())?;
            found += memmem::find_iter(message.body, b"\"inputSchema\"").count();
            let Some(cursor) = json::string(message.body, "nextCursor").filter(|_| pages < PAGES) else {
                break;
            };
            let page = next.page(cursor, &digits);
            message = connection.exchange(&page).await?;
            pages += 1;
        }
        match found == *tools {
            true => Ok(()),
            false => Err(Failure::new(format!("{found} tools came instead of {tools}"))),
        }
    }

    /// The body alone with this number, for a pipe.
    pub(crate) fn line(&mut self, number: u64) -> &[u8] {
        self.set(number);
        let body = memmem::find(&self.bytes, b"\r\n\r\n").map_or(0, |end| end + 4);
        self.bytes.get(body..).unwrap_or_default()
    }

    fn set(&mut self, number: u64) -> String {
        let digits = number.to_string();
        for place in &self.numbers {
            if let Some(place) = self.bytes.get_mut(place.clone()) {
                place.copy_from_slice(digits.as_bytes());
            }
        }
        digits
    }
}

impl Check {
    fn one(&self, message: &Message<'_>, digits: &[u8]) -> Result<(), Failure> {
        answers(message, digits)?;
        let text = json::string(message.body, "text").unwrap_or_default();
        let as_asked = match self {
            Check::Echo => text.strip_prefix(b"say ") == Some(digits),
            Check::Big(filler) => text == filler.as_bytes(),
            Check::List { .. } => true,
        };
        match as_asked {
            true => Ok(()),
            false if text.len() >= BIG / 2 => Err(Failure::new("another text of this size came back")),
            false => Err(Failure::new(format!(
                "another text than the one sent came back: {}",
                message.beginning()
            ))),
        }
    }
}

/// The number of the request that an answer is for; what a pipe brings has no status.
pub(crate) fn number_of(line: &[u8]) -> Option<u64> {
    std::str::from_utf8(json::scalar(line, "id")?).ok()?.parse().ok()
}

/// It is a good answer to the request of this number.
pub(crate) fn answers(message: &Message<'_>, digits: &[u8]) -> Result<(), Failure> {
    let good = message.status() == 200
        && json::scalar(message.body, "id") == Some(digits)
        && json::after(message.body, "result").is_some();
    match good {
        true => Ok(()),
        false => {
            let digits = String::from_utf8_lossy(digits).into_owned();
            Err(Failure::new(format!("instead of a result for {digits} came {}", message.beginning())))
        }
    }
}

impl Next {
    fn page(&self, cursor: &[u8], digits: &str) -> Vec<u8> {
        let members = format!(r#""cursor":"{}""#, String::from_utf8_lossy(cursor));
        let body = Body { method: "tools/list", tool: "", members: &members };
        let mut bytes = request(&self.site, self.era, self.session.as_deref(), &body);
        let from = FIRST.to_string();
        if let Some(place) =
            memmem::find(&bytes, from.as_bytes()).and_then(|at| bytes.get_mut(at..at + from.len()))
        {
            place.copy_from_slice(digits.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::http::Progress;

    fn site() -> Site {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        Site { address, path: "/mcp".to_owned(), token: "t".to_owned(), prefix: "echo__".to_owned() }
    }

    #[test]
    fn a_request_is_whole_and_carries_its_number() {
        for era in [Era::Legacy, Era::Modern] {
            for work in [Work::Echo, Work::Big, Work::List(3)] {
                let mut query = Query::new(&site(), era, work, Some("s"));
                query.set(FIRST + 7);
                let whole = Progress::default().look(&query.bytes).unwrap().unwrap();
                assert_eq!(whole.end, query.bytes.len());
                let message = whole.message(&query.bytes);
                let body: serde_json::Value = serde_json::from_slice(message.body).unwrap();
                assert_eq!(body["id"], FIRST + 7);
                assert_eq!(body["params"].get("_meta").is_some(), era == Era::Modern);
                assert_eq!(message.header("mcp-method").is_some(), era == Era::Modern);
                assert_eq!(number_of(query.line(FIRST + 8)), Some(FIRST + 8));
            }
        }
    }

    #[test]
    fn an_answer_to_another_request_or_with_another_text_fails() {
        let mut query = Query::new(&site(), Era::Legacy, Work::Echo, None);
        let digits = query.set(FIRST + 1);
        let check = |status: &str, id: u64, text: &str| {
            let head = format!("HTTP/1.1 {status} x\r\n\r\n");
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"text":"{text}"}}]}}}}"#);
            query
                .check
                .one(&Message { head: head.as_bytes(), body: body.as_bytes() }, digits.as_bytes())
                .is_ok()
        };
        assert!(check("200", FIRST + 1, "say 1000000001"));
        assert!(!check("200", FIRST + 2, "say 1000000001"));
        assert!(!check("200", FIRST + 1, "say 1000000002"));
        assert!(!check("500", FIRST + 1, "say 1000000001"));
    }
}
