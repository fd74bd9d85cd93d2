//! One tenant whose every word bears its mark, and all that a client of it does.

use serde_json::{Value, json};
use testkit::{Answer, Asker, Daemon, Request, Script, Setup, Step, Stream, until};
use wire::{Era, Kind};

/// What a tenant has seen, and what nobody but it, or nobody at all, may see.
#[derive(Debug)]
pub(super) struct Seen {
    /// The mark, which is the tenant's name.
    pub(super) word: &'static str,
    pub(super) heard: Vec<u8>,
    /// Ids that were given to it.
    pub(super) ids: Vec<String>,
    pub(super) secrets: Vec<String>,
}

const FORM: &str = r#"{"message":"MARK asks","requestedSchema":{"type":"object","properties":{"MARK_field":{"type":"string"}}}}"#;

fn marked(text: &str, word: &str) -> String {
    text.replace("MARK", word)
}

/// What the credentials of a tenant's upstreams are.
pub(super) fn secrets(word: &str) -> [String; 2] {
    [format!("hush-env-{word}"), format!("hush-header-{word}")]
}

fn logged(word: &str, secret: &str) -> Step {
    let text = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"MARK_logger","data":"MARK said SECRET"}}"#;
    Step::send(&marked(text, word).replace("SECRET", secret))
}

fn server(word: &str, secret: &str) -> Script {
    let mark = |text: &str| marked(text, word);
    let tool = |name: &str| {
        json!({
            "name": format!("{word}_{name}"),
            "description": format!("{word} describes"),
            "inputSchema": { "type": "object", "properties": { (format!("{word}_argument")): {} } },
        })
        .to_string()
    };
    let names = ["act", "fails", "breaks", "ask", "slow", "logs", "denied", "held", "few"];
    let script = names.iter().fold(Script::new(), |script, name| script.item(Kind::Tools, &tool(name)));
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":1,"message":"MARK goes on"}}"#;
    let updated =
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"mem://MARK"}}"#;
    script
        .item(Kind::Tools, &json!({ "name": format!("{word}/../x"), "inputSchema": {} }).to_string())
        .item(Kind::Prompts, &mark(r#"{"name":"MARK_prompt","description":"MARK describes"}"#))
        .item(Kind::Resources, &mark(r#"{"uri":"mem://MARK","name":"MARK"}"#))
        .item(Kind::Templates, &mark(r#"{"uriTemplate":"mem://MARK/{id}","name":"MARK"}"#))
        .instructions(&mark("MARK instructs"))
        .capabilities(
            r#"{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#,
        )
        .at_start(&[Step::complains(&format!("{word} complains of {secret}"))])
        .on("logging/setLevel", &[Step::result("{}")])
        .on("resources/subscribe", &[Step::result("{}")])
        .on_call(
            &mark("MARK_fails"),
            &[Step::result(&mark(r#"{"isError":true,"content":[{"type":"text","text":"MARK failed"}]}"#))],
        )
        .on_call(
            &mark("MARK_breaks"),
            &[Step::error(&mark(r#"{"code":-32000,"message":"MARK broke","data":{"MARK":1}}"#))],
        )
        .on_call(
            &mark("MARK_ask"),
            &[
                Step::ask("1", "elicitation/create", &mark(FORM)),
                Step::result(r#"{"content":[],"structuredContent":{"answer":${answer}}}"#),
            ],
        )
        .on_call(
            &mark("MARK_slow"),
            &[
                Step::gate("slow"),
                Step::result(&mark(r#"{"content":[{"type":"text","text":"MARK at last"}]}"#)),
            ],
        )
        .on_call(
            &mark("MARK_logs"),
            &[logged(word, secret), Step::send(&mark(progress)), Step::result("{\"content\":[]}")],
        )
        .on_cue("talk", &[logged(word, secret), Step::send(&mark(updated)), Step::changed(Kind::Tools)])
}

/// The tenant's configuration: a program, a server with a URL, and one that is gone.
pub(super) fn setup(word: &str) -> Setup {
    let [env, header] = secrets(word);
    let dead = Script::tools(&[&format!("{word}_act")]).at_start(&[
        Step::complains(&format!("{word} dies with {env}")),
        Step::when("dead", &[], &[Step::exit(1)]),
    ]);
    let rules = r#"
default: allow
rules:
  - { name: MARK-denied, tools: ["*__MARK_denied"], when: 'args.MARK == "MARK"', effect: deny, message: MARK says no. }
  - { name: MARK-held, tools: ["*__MARK_held"], effect: approve }
  - { name: MARK-later, tools: ["*__MARK_act"], effect: deny, mode: shadow }
"#;
    let tenant = r#"
identity: { keys: true, issuers: [{ issuer: "https://id.MARK.example", jwks: "../MARK.jwks", scopes: ["MARK:use"] }] }
policies: [policies/MARK.yaml]
limits: [{ name: MARK-few, per: principal, tool: "*__MARK_few", rate: 1/h, burst: 1 }]
runaway: off
virtual_servers:
  default: { upstreams: [MARK-s, MARK-h, MARK-x] }
  MARK-other: { upstreams: [MARK-s] }
"#;
    let keys = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","alg":"EdDSA","use":"sig","kid":"MARK"}]}"#;
    Setup::new()
        .named(word)
        .upstream_with(&format!("{word}-s"), server(word, &env), &format!("env: {{ TOKEN: {env} }}"))
        .served(
            &format!("{word}-h"),
            server(word, &header).modern(),
            &format!("credential: {{ header: X-Key, value: {header} }}"),
        )
        .upstream_with(&format!("{word}-x"), dead, &format!("env: {{ TOKEN: {env} }}"))
        .tenant(&marked(tenant, word))
        .file(&format!("policies/{word}.yaml"), &marked(rules, word))
        .file(&format!("{word}.jwks"), &marked(keys, word))
}

/// A client of the tenant.
pub(super) struct Side<'a> {
    daemon: &'a Daemon,
    asker: Asker,
    seen: Seen,
}

impl<'a> Side<'a> {
    pub(super) fn new(daemon: &'a Daemon, word: &'static str, era: Era) -> Side<'a> {
        let key = daemon.api_key(word, &format!("{word}-ann"), &[&format!("{word}-group")]);
        let able =
            json!({ "elicitation": { "form": {} }, "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let asker = Asker::new(daemon, &format!("/t/{word}/mcp"), &key, era, able);
        let ids = asker.client.session.clone().into_iter().collect();
        let secrets = secrets(word).into_iter().chain([key]).collect();
        Side { daemon, asker, seen: Seen { word, heard: Vec::new(), ids, secrets } }
    }

    fn name(&self, upstream: &str, tool: &str) -> String {
        let word = self.seen.word;
        format!("{word}-{upstream}__{word}_{tool}")
    }

    fn note(&mut self, answer: &Answer) {
        for (name, value) in &answer.headers {
            self.seen.heard.extend(format!("{name}: {value}\n").into_bytes());
        }
        self.seen.heard.extend(&answer.body);
        self.seen.heard.push(b'\n');
    }

    fn note_stream(&mut self, stream: &Stream) {
        self.note(&stream.head);
        self.seen.heard.extend(&stream.raw);
    }

    fn send(&mut self, request: &Request) -> Answer {
        let answer = self.asker.client.send(request);
        self.note(&answer);
        answer
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = self.asker.request(method, params);
        self.send(&request).messages().pop().unwrap_or_default()
    }

    fn call(&mut self, upstream: &str, tool: &str) -> Value {
        let word = self.seen.word;
        let params = json!({
            "name": self.name(upstream, tool),
            "arguments": { (word): word },
            "_meta": {
                "progressToken": format!("{word}-progress"),
                "io.modelcontextprotocol/logLevel": "debug",
            },
        });
        self.ask("tools/call", &params)
    }

    /// All methods, and all ways in which they fail.
    pub(super) fn play(mut self) -> Seen {
        self.introduce();
        for upstream in ["s", "h"] {
            for tool in ["act", "fails", "breaks", "logs", "denied", "held", "few", "few", "none"] {
                self.call(upstream, tool);
            }
        }
        self.call("x", "act");
        self.things();
        self.is_asked();
        self.tasks();
        self.fails();
        self.speaks_the_oldest();
        self.listens();
        self.has_heard();
        self.seen
    }

    /// What was to be provoked was: else there is nothing to look through.
    fn has_heard(&self) {
        let heard = String::from_utf8_lossy(&self.seen.heard);
        let told = ["instructs", "describes", "failed", "broke", "said", "goes on", "asks", "says no"];
        let mut expected = told.map(|what| format!("{} {what}", self.seen.word)).to_vec();
        let reasons = ["approval_unavailable", "rate_limited", "unknown_name", "unknown_task", "upstream_"];
        expected.extend(reasons.map(str::to_owned));
        expected.extend(["www-authenticate", "resources/updated", "event: endpoint"].map(str::to_owned));
        for what in expected {
            assert!(heard.contains(&what), "`{what}` was not heard");
        }
    }

    fn introduce(&mut self) {
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
        match self.asker.era {
            Era::Legacy => {
                let hello = self.asker.request("initialize", &hello).without("mcp-session-id");
                let id = self.send(&hello).header("mcp-session-id").unwrap().to_owned();
                self.seen.ids.push(id);
                self.ask("logging/setLevel", &json!({ "level": "debug" }));
                self.ask("ping", &json!({}));
                self.ask("tasks/list", &json!({}));
            }
            Era::Modern => drop(self.ask("server/discover", &json!({}))),
        }
        for kind in Kind::ALL {
            let items = self.ask(kind.list_method().name(), &json!({}))["result"][kind.member()].clone();
            assert!(!items.as_array().unwrap().is_empty(), "{kind:?}");
        }
    }

    fn things(&mut self) {
        let word = self.seen.word;
        for upstream in ["s", "h"] {
            let prompt = format!("{word}-{upstream}__{word}_prompt");
            let uri = format!("{word}-{upstream}+mem://{word}");
            self.ask("prompts/get", &json!({ "name": prompt, "arguments": { (word): word } }));
            self.ask("resources/read", &json!({ "uri": uri }));
            self.ask("resources/read", &json!({ "uri": format!("{uri}/7") }));
            for reference in [
                json!({ "type": "ref/prompt", "name": prompt }),
                json!({ "type": "ref/resource", "uri": format!("{uri}/{{id}}") }),
            ] {
                let argument = json!({ "name": word, "value": word });
                self.ask("completion/complete", &json!({ "ref": reference, "argument": argument }));
            }
        }
        self.ask("prompts/get", &json!({ "name": format!("{word}_none") }));
        self.ask("resources/read", &json!({ "uri": format!("{word}:none") }));
    }

    /// What is asked, answered in the way of the era.
    fn is_asked(&mut self) {
        let params = json!({ "name": self.name("s", "ask"), "arguments": {} });
        match self.asker.era {
            Era::Legacy => {
                let mut stream = self.asker.begin("tools/call", &params);
                let question = stream.next_message().unwrap();
                let said = json!({ "action": "accept", "content": { (self.seen.word): self.seen.word } });
                let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": said });
                let request = self.asker.client.post(answer.to_string());
                self.send(&request);
                stream.next_message().unwrap();
                self.note_stream(&stream);
            }
            Era::Modern => {
                let asked = self.ask("tools/call", &params);
                // It asks in a task, since this client takes those.
                let id = asked["result"]["taskId"].as_str().unwrap().to_owned();
                let question = until("a question", || {
                    let task = self.ask("tasks/get", &json!({ "taskId": id }))["result"].clone();
                    Some(task["inputRequests"].as_object()?.keys().next()?.clone())
                });
                let said = json!({ "action": "accept", "content": { (self.seen.word): self.seen.word } });
                let responses = json!({ "taskId": id, "inputResponses": { (question): said } });
                self.ask("tasks/update", &responses);
                self.seen.ids.push(id);
            }
        }
    }

    fn tasks(&mut self) {
        if self.asker.era == Era::Legacy {
            return;
        }
        let made = self.call("s", "slow");
        let id = made["result"]["taskId"].as_str().unwrap().to_owned();
        let about = json!({ "taskId": id, "inputResponses": {} });
        let wanted = json!({ "notifications": { "taskIds": [id] } });
        let mut stream = self.asker.begin("subscriptions/listen", &wanted);
        stream.next_message().unwrap();
        stream.next_message().unwrap();
        self.note_stream(&stream);
        for method in ["tasks/get", "tasks/update", "tasks/cancel", "tasks/get"] {
            self.ask(method, &about);
        }
        self.seen.ids.push(id);
    }

    /// What is malformed, unknown, or shown at the wrong door.
    fn fails(&mut self) {
        let word = self.seen.word;
        self.ask(&format!("{word}/none"), &json!({ (word): word }));
        self.ask("tools/call", &json!({ (word): word }));
        self.ask("tasks/get", &json!({ "taskId": format!("{word}-none") }));
        let broken = self.asker.client.post(format!("{{\"{word}\":"));
        self.send(&broken);
        let wrong = self.asker.request("tools/list", &json!({})).with("mcp-protocol-version", word);
        self.send(&wrong);
        let nobody =
            self.asker.request("tools/list", &json!({})).with("authorization", &format!("Bearer {word}"));
        self.send(&nobody);
        let other = Request::post(
            &format!("/t/{word}/mcp/{word}-other"),
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        );
        let key = self.seen.secrets.last().unwrap();
        let known = other.clone().with("authorization", &format!("Bearer {key}"));
        self.send(&known);
        self.send(&other);
    }

    /// The same in short over HTTP+SSE.
    fn speaks_the_oldest(&mut self) {
        let word = self.seen.word;
        let token = format!("Bearer {}", self.seen.secrets.last().unwrap());
        let get = Request::new("GET", &format!("/t/{word}/sse")).with("authorization", &token);
        let mut stream = self.asker.client.begin(&get.with("accept", "text/event-stream")).stream();
        stream.reads(b"\n\n");
        let first = String::from_utf8(stream.raw.clone()).unwrap();
        let path = first.strip_prefix("event: endpoint\ndata: ").unwrap().split('\n').next().unwrap();
        let call = json!({ "name": self.name("s", "fails"), "arguments": {} });
        for (id, method, params) in [
            (1, "initialize", json!({ "protocolVersion": "2024-11-05", "capabilities": {} })),
            (2, "tools/list", json!({})),
            (3, "tools/call", call),
        ] {
            let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            let request = Request::post(path, body.to_string()).with("authorization", &token);
            assert_eq!(self.send(&request).status, 202);
            while stream.next_message().unwrap()["id"] != id {}
        }
        self.note_stream(&stream);
    }

    /// What is told unasked.
    fn listens(&mut self) {
        let word = self.seen.word;
        let uri = format!("{word}-s+mem://{word}");
        let mut stream = match self.asker.era {
            Era::Legacy => {
                self.ask("resources/subscribe", &json!({ "uri": uri }));
                self.asker.client.listen()
            }
            Era::Modern => {
                let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": [uri] });
                self.asker.begin("subscriptions/listen", &json!({ "notifications": wanted }))
            }
        };
        if self.asker.era == Era::Modern {
            stream.next_message().unwrap();
        }
        self.daemon.journal(&format!("{word}-s")).cue("talk");
        while stream.next_message().unwrap()["method"] != "notifications/resources/updated" {}
        self.note_stream(&stream);
    }
}
