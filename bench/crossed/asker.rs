//! One connection of a client that uses few ids again and again, and looks at every answer.

use serde_json::Value;

use super::{
    stand::{SERVERS, name},
    tally::{Tally, Verdict},
};
use crate::{
    chance::Chance,
    connection::Connection,
    failure::Failure,
    request::{self, Site},
    service::Era,
    session,
    unruly::LATE,
};

/// One call in so many is answered too late, and one on which the client hangs up.
const RARELY: usize = 2_000;

/// Where the text of a result stands.
const TEXT: &str = "/result/content/0/text";

/// A connection and what it asks as.
#[derive(Debug)]
pub(crate) struct Asker {
    tenant: usize,
    site: Site,
    era: Era,
    session: Option<String>,
    /// The ids it uses, one after the other.
    ids: Vec<u64>,
    connection: Connection,
    chance: Chance,
}

/// One call.
struct Question {
    id: u64,
    /// What the server gets.
    marker: String,
    /// What it says.
    expected: String,
    request: Vec<u8>,
}

impl Asker {
    /// The connections of one tenant: two that share a session and its ids, two with sessions of their own, and four
    /// of the modern era, where there are none.
    pub(crate) async fn all(tenant: usize, site: &Site, many: usize) -> Result<Vec<Asker>, Failure> {
        let mut askers = Vec::new();
        let mut shared = None;
        for place in 0..many {
            let era = if place < many / 2 { Era::Legacy } else { Era::Modern };
            let mut connection = Connection::open(site.address).await?;
            let session = match place {
                1 => shared.clone(),
                _ => session::open(&mut connection, site, era).await?,
            };
            let ids = match place {
                0 => 1..=5,
                1 => 6..=10,
                _ => 1..=10,
            };
            if place == 0 {
                shared.clone_from(&session);
            }
            let chance = Chance::new((tenant * many + place + 1) as u64);
            let site = site.clone();
            askers.push(Asker { tenant, site, era, session, ids: ids.collect(), connection, chance });
        }
        Ok(askers)
    }

    /// Asks until the count of calls is used up.
    pub(crate) async fn ask_all(mut self, tally: &Tally) -> Result<(), Failure> {
        while let Some(number) = tally.next() {
            self.ids.rotate_left(1);
            let hangs_up = self.era == Era::Modern && self.chance.one_in(RARELY);
            let is_late = !hangs_up && self.chance.one_in(RARELY);
            let question = self.question(number, if is_late { LATE } else { "" });
            if hangs_up {
                self.connection.send(&question.request).await?;
                if self.chance.one_in(2) {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                self.connection = Connection::open(self.site.address).await?;
                tally.count(&Verdict::HungUp);
                continue;
            }
            let verdict = match self.connection.exchange_once(&question.request).await {
                Ok(message) => judged(message.status(), message.body, &question, is_late),
                Err(failure) => {
                    self.connection = Connection::open(self.site.address).await?;
                    Verdict::Error(failure.to_string())
                }
            };
            tally.count(&verdict);
        }
        Ok(())
    }

    /// Asks a server what it did, and adds it up.
    pub(crate) async fn count(&mut self, server: &str, said: &str) -> Result<Vec<u64>, Failure> {
        let question = self.rendered(server, 1, said);
        let message = self.connection.exchange_once(&question).await?;
        let value = messages(message.body).pop().unwrap_or_default();
        let text = value.pointer(TEXT).and_then(Value::as_str).unwrap_or_default();
        Ok(text.split(' ').filter_map(|word| word.parse().ok()).collect())
    }

    fn question(&mut self, number: u64, end: &str) -> Question {
        let server =
            self.chance.below(SERVERS.len()).and_then(|at| SERVERS.get(at)).copied().unwrap_or("pipe");
        let id = self.ids.first().copied().unwrap_or(1);
        let marker = format!("m{number}-t{}{end}", self.tenant);
        let expected = format!("{}/{marker}", name(self.tenant, server));
        let request = self.rendered(server, id, &marker);
        Question { id, marker, expected, request }
    }

    fn rendered(&self, server: &str, id: u64, text: &str) -> Vec<u8> {
        let (envelope, header) = match self.era {
            Era::Legacy => ("", String::new()),
            Era::Modern => (
                concat!(
                    r#","io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
                    r#""io.modelcontextprotocol/clientCapabilities":{},"#,
                    r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}"#
                ),
                format!("Mcp-Method: tools/call\r\nMcp-Name: {server}__echo\r\n"),
            ),
        };
        // Progress is asked for under the id, so that tokens are as few as ids.
        let body = format!(
            concat!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{server}__echo","#,
                r#""arguments":{{"text":"{text}"}},"_meta":{{"progressToken":{id}{envelope}}}}}}}"#
            ),
            id = id,
            server = server,
            text = text,
            envelope = envelope
        );
        request::post(&self.site, self.era, self.session.as_deref(), &header, &body)
    }
}

/// The messages of a body, JSON or events.
fn messages(body: &[u8]) -> Vec<Value> {
    if body.starts_with(b"{") {
        return serde_json::from_slice(body).into_iter().collect();
    }
    let lines = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    lines.filter_map(|data| serde_json::from_slice(data).ok()).collect()
}

/// What an answer is worth: its own, somebody else's, or none.
fn judged(status: u16, body: &[u8], question: &Question, is_late: bool) -> Verdict {
    let said = || String::from_utf8_lossy(body).chars().take(600).collect::<String>();
    let mut messages = messages(body);
    let Some(answer) = messages.pop().filter(|_| status == 200) else {
        return Verdict::Error(format!("status {status}: {}", said()));
    };
    let is_mine = |progress: &Value| {
        let param = |name: &str| progress.get("params")?.get(name);
        param("progressToken").and_then(Value::as_u64) == Some(question.id)
            && param("message").and_then(Value::as_str) == Some(&question.marker)
    };
    let is_its_id = answer.get("id").and_then(Value::as_u64) == Some(question.id);
    if !is_its_id || !messages.iter().all(is_mine) {
        return Verdict::Crossed(format!("{} under {} got {}", question.marker, question.id, said()));
    }
    let is_failure = answer.pointer("/result/isError") != Some(&Value::Bool(false));
    match answer.pointer(TEXT).and_then(Value::as_str) {
        Some(text) if !is_failure && text == question.expected && !is_late => Verdict::Own,
        Some(_) if is_failure && is_late => Verdict::Late,
        Some(_) if !is_failure => Verdict::Crossed(format!("{} got {}", question.expected, said())),
        Some(_) | None => Verdict::Error(said()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_own_or_crossed_or_an_error() {
        let question =
            Question { id: 7, marker: "m1".into(), expected: "t0-pipe/m1".into(), request: Vec::new() };
        let answer = |id: &str, failed: bool, text: &str| {
            format!(r#"{{"id":{id},"result":{{"content":[{{"text":"{text}"}}],"isError":{failed}}}}}"#)
        };
        let progress = |token: u64, text: &str, rest: &str| {
            format!(
                "data: {{\"params\":{{\"progressToken\":{token},\"message\":\"{text}\"}}}}\n\ndata: {rest}\n\n"
            )
        };
        let own = answer("7", false, "t0-pipe/m1");
        let judge = |body: &str| match judged(200, body.as_bytes(), &question, false) {
            Verdict::Own => "own",
            Verdict::Crossed(_) => "crossed",
            Verdict::Late | Verdict::HungUp | Verdict::Error(_) => "error",
        };
        for (body, expected) in [
            (own.clone(), "own"),
            (progress(7, "m1", &own), "own"),
            (answer("8", false, "t0-pipe/m1"), "crossed"),
            (answer("\"7\"", false, "t0-pipe/m1"), "crossed"),
            (answer("7", false, "t0-web/m1"), "crossed"),
            (answer("7", false, "t0-pipe/m2"), "crossed"),
            (progress(8, "m1", &own), "crossed"),
            (progress(7, "m2", &own), "crossed"),
            (answer("7", true, "t0-pipe/m1"), "error"),
            (r#"{"id":7,"error":{"code":-32603,"message":"x"}}"#.to_owned(), "error"),
            (String::new(), "error"),
        ] {
            assert_eq!(judge(&body), expected, "{body}");
        }
        assert!(matches!(judged(400, own.as_bytes(), &question, false), Verdict::Error(_)));
        assert!(matches!(judged(200, answer("7", true, "late").as_bytes(), &question, true), Verdict::Late));
    }
}
