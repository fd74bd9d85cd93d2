//! One cell of the matrix: a method, the revision of its client, and what there is to decide about it.

use serde_json::{Value, json};
use testkit::{Answer, Client, Request};
use wire::{Era, Form, Method, Names, Revision};

/// What is special about a message, and so what must become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing is.
    Allowed,
    /// It names what a filter hides.
    Hidden,
    /// It names what does not exist.
    Unknown,
    /// It lacks the parameter that matters.
    Malformed,
    /// It goes to an endpoint whose one server has no capability at all.
    Unpromised,
    /// A request without an id, or a notification with one.
    WrongForm,
    /// `Mcp-Method` names another method.
    WrongMethodHeader,
    /// `Mcp-Name` names another thing.
    WrongNameHeader,
    /// A message of one era in the dress of the other: an envelope beside a session, or a header without an envelope.
    OtherEra,
    /// A legacy message without a session.
    NoSession,
    /// An envelope of a legacy revision, without a session.
    LegacyEnvelope,
}

impl Decision {
    pub(super) const ALL: [Decision; 11] = [
        Decision::Allowed,
        Decision::Hidden,
        Decision::Unknown,
        Decision::Malformed,
        Decision::Unpromised,
        Decision::WrongForm,
        Decision::WrongMethodHeader,
        Decision::WrongNameHeader,
        Decision::OtherEra,
        Decision::NoSession,
        Decision::LegacyEnvelope,
    ];
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) number: usize,
    pub(super) revision: Revision,
    pub(super) method: Method,
    pub(super) decision: Decision,
}

/// How a message is dressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dress {
    Session,
    Envelope(Revision),
    HeaderOnly,
    Nothing,
}

impl Cell {
    /// Whether there is such a cell.
    pub(super) fn exists(&self) -> bool {
        let row = self.method.row();
        let modern = self.revision.era() == Era::Modern;
        let target = matches!(row.names, Names::Tool | Names::Prompt | Names::Resource | Names::Reference);
        match self.decision {
            Decision::Allowed | Decision::WrongForm | Decision::OtherEra => true,
            Decision::Hidden | Decision::Unknown => target,
            Decision::Malformed => {
                target
                    || matches!(
                        self.method,
                        Method::Initialize | Method::SetLevel | Method::SubscriptionsListen
                    )
            }
            Decision::Unpromised => row.capability.is_some(),
            Decision::WrongMethodHeader => modern && row.form == Form::Request,
            Decision::WrongNameHeader => {
                let headed = matches!(row.names, Names::Tool | Names::Prompt | Names::Resource | Names::Task);
                modern && row.form == Form::Request && headed
            }
            Decision::NoSession | Decision::LegacyEnvelope => !modern,
        }
    }

    /// Whether it has an id.
    pub(super) fn asks(&self) -> bool {
        (self.method.row().form == Form::Request) != (self.decision == Decision::WrongForm)
    }

    /// Numbers and texts by turns: an id comes back as it was (spec B-02).
    pub(super) fn id(&self) -> Value {
        match self.number % 2 {
            0 => json!(self.number),
            _ => json!(self.number.to_string()),
        }
    }

    /// What nothing else contains.
    pub(super) fn marker(&self) -> String {
        format!("cell-{}.", self.number)
    }

    pub(super) fn path(&self) -> &'static str {
        match self.decision {
            Decision::Unpromised => "/mcp/poor",
            _ => "/mcp",
        }
    }

    /// Whether it is to be understood as a modern message.
    pub(super) fn is_modern(&self) -> bool {
        matches!(self.dress(), Dress::Envelope(Revision::R2026_07_28))
    }

    fn dress(&self) -> Dress {
        match (self.revision.era(), self.decision) {
            (Era::Legacy, Decision::OtherEra) => Dress::Envelope(Revision::R2026_07_28),
            (Era::Modern, Decision::OtherEra) => Dress::HeaderOnly,
            (_, Decision::NoSession) => Dress::Nothing,
            (_, Decision::LegacyEnvelope) | (Era::Modern, _) => Dress::Envelope(self.revision),
            (Era::Legacy, _) => Dress::Session,
        }
    }

    /// The members of params, without `_meta`.
    fn params(&self) -> Value {
        let row = self.method.row();
        let pick = |right: &str, hidden: &str, unknown: &str| {
            let name = match self.decision {
                Decision::Hidden => hidden,
                Decision::Unknown => unknown,
                _ => right,
            };
            name.to_owned()
        };
        if self.decision == Decision::Malformed {
            return json!({});
        }
        match (self.method, row.names) {
            (Method::Initialize, _) => {
                json!({ "protocolVersion": self.revision.text(), "capabilities": {} })
            }
            (Method::SetLevel, _) => json!({ "level": "warning" }),
            (Method::SubscriptionsListen, _) => json!({ "notifications": { "toolsListChanged": true } }),
            (_, Names::Tool) => json!({ "name": pick("alpha__act", "alpha__secret", "alpha__none") }),
            (_, Names::Prompt) => json!({ "name": pick("alpha__ask", "alpha__secret", "alpha__none") }),
            (_, Names::Resource) => {
                json!({ "uri": pick("alpha+mem://one", "alpha+mem://secret", "gamma+mem://one") })
            }
            (_, Names::Reference) => json!({
                "ref": { "type": "ref/prompt", "name": pick("alpha__ask", "alpha__secret", "alpha__none") },
                "argument": { "name": "a", "value": "" },
            }),
            (_, Names::Task) => json!({ "taskId": "nobody's" }),
            (_, Names::Request) => json!({ "requestId": "nobody's" }),
            (_, Names::Token) => json!({ "progressToken": "nobody's", "progress": 1 }),
            (_, Names::Nothing) => json!({}),
        }
    }

    /// The message. `client` has a session of the cell's revision, or none in the modern era.
    pub(super) fn request(&self, client: &Client) -> Request {
        let mut params = self.params();
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str()).map(str::to_owned);
        params["_meta"] = json!({ "com.example/cell": self.marker() });
        if let Dress::Envelope(revision) = self.dress() {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(revision.text());
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let mut message = json!({ "jsonrpc": "2.0", "method": self.method.name(), "params": params });
        if self.asks() {
            message["id"] = self.id();
        }
        let request = client.post(message.to_string());
        match self.dress() {
            Dress::Session => request,
            Dress::Nothing => request.without("mcp-session-id").without("mcp-protocol-version"),
            Dress::HeaderOnly => request.with("mcp-protocol-version", "2026-07-28"),
            Dress::Envelope(revision) => {
                let wrong = |decision, right: &str| match self.decision == decision {
                    true => "another".to_owned(),
                    false => right.to_owned(),
                };
                let method = wrong(Decision::WrongMethodHeader, self.method.name());
                let mut request =
                    request.with("mcp-protocol-version", revision.text()).with("mcp-method", &method);
                if let Some(name) = name {
                    request = request.with("mcp-name", &wrong(Decision::WrongNameHeader, &name));
                }
                match self.decision {
                    Decision::LegacyEnvelope => request.without("mcp-session-id"),
                    _ => request,
                }
            }
        }
    }

    /// Sends it; of a stream that goes on, the first message.
    pub(super) fn send(&self, client: &Client) -> Answer {
        let connection = client.begin(&self.request(client));
        if self.method != Method::SubscriptionsListen {
            let mut connection = connection;
            return connection.answer();
        }
        let mut stream = connection.stream();
        let mut answer = stream.head.clone();
        match stream.next_message() {
            Some(first) => {
                answer.headers.retain(|(name, _)| name != "content-type");
                answer.body = first.to_string().into_bytes();
            }
            None => answer.body.clone_from(&stream.raw),
        }
        answer
    }
}
