//! What a scripted MCP server does. `tests/data/scripted.py` plays it.

use std::{fs, path::Path};

use serde_json::{Value, json};
use wire::Kind;

/// The whole behaviour of one scripted server. Without further words it is a plain one: it shakes hands, lists what it
/// is given, and answers each call with the tool's name and what it received.
#[derive(Clone, Debug)]
pub struct Script(Value);

/// One thing a scripted server does. In raw texts `${id}` stands for the id of the request that is played to, `${token}`
/// for its progress token, `${pid}` for the server's process, `${params}` for the request's params.
#[derive(Clone, Debug)]
pub struct Step(Value);

impl Default for Script {
    fn default() -> Script {
        Script::new()
    }
}

impl Script {
    /// A server that has nothing.
    pub fn new() -> Script {
        Script(json!({ "lists": {}, "calls": {}, "methods": {}, "cues": {}, "start": [], "child": false }))
    }

    /// A server with these tools.
    pub fn tools(names: &[&str]) -> Script {
        names.iter().fold(Script::new(), |script, name| script.tool(name))
    }

    /// One more plain tool.
    pub fn tool(self, name: &str) -> Script {
        let item = json!({ "name": name, "inputSchema": { "type": "object" } });
        self.item(Kind::Tools, &item.to_string())
    }

    /// One more resource.
    pub fn resource(self, uri: &str) -> Script {
        self.item(Kind::Resources, &json!({ "uri": uri, "name": uri }).to_string())
    }

    /// One more resource template.
    pub fn template(self, uri: &str) -> Script {
        self.item(Kind::Templates, &json!({ "uriTemplate": uri, "name": uri }).to_string())
    }

    /// One more prompt.
    pub fn prompt(self, name: &str) -> Script {
        self.item(Kind::Prompts, &json!({ "name": name }).to_string())
    }

    /// One more item of a list, as raw JSON.
    pub fn item(mut self, kind: Kind, raw: &str) -> Script {
        let method = kind.list_method().name();
        let lists = &mut self.0["lists"];
        if lists[method].is_null() {
            lists[method] = json!([{ "at": null, "items": [], "next": null }]);
        }
        lists[method][0]["items"].as_array_mut().unwrap().push(raw.into());
        self
    }

    /// A list in pages: for each the cursor it stands at, its raw items, and the raw cursor that it says comes next.
    pub fn pages(mut self, kind: Kind, pages: &[(Option<&str>, &[&str], Option<&str>)]) -> Script {
        self.0["lists"][kind.list_method().name()] = paged(pages);
        self
    }

    /// The raw capabilities it announces; without this, those of its lists.
    pub fn capabilities(mut self, raw: &str) -> Script {
        self.0["capabilities"] = raw.into();
        self
    }

    /// What it says of itself.
    pub fn instructions(mut self, text: &str) -> Script {
        self.0["instructions"] = text.into();
        self
    }

    /// The revision it agrees to, whatever it is asked for.
    pub fn revision(mut self, revision: &str) -> Script {
        self.0["revision"] = revision.into();
        self
    }

    /// It speaks the revision without handshakes, and no other.
    pub fn modern(mut self) -> Script {
        self.0["modern"] = true.into();
        self
    }

    /// What a call of this tool does.
    pub fn on_call(mut self, tool: &str, steps: &[Step]) -> Script {
        self.0["calls"][tool] = values(steps);
        self
    }

    /// What a request of this method does.
    pub fn on(mut self, method: &str, steps: &[Step]) -> Script {
        self.0["methods"][method] = values(steps);
        self
    }

    /// What it does before it listens.
    pub fn at_start(mut self, steps: &[Step]) -> Script {
        self.0["start"] = values(steps);
        self
    }

    /// What it does when the test gives this cue: see `Journal::cue`.
    pub fn on_cue(mut self, cue: &str, steps: &[Step]) -> Script {
        self.0["cues"][cue] = values(steps);
        self
    }

    /// It starts a child, and one more in a session of its own. Neither heeds SIGTERM, nor listens to anyone.
    pub fn with_children(mut self) -> Script {
        self.0["child"] = true.into();
        self
    }

    /// Puts the script of the server of this id into a folder, and returns the arguments with which Python plays it.
    pub fn install(&self, id: &str, home: &Path) -> [String; 4] {
        let path = home.join("script.json");
        fs::create_dir_all(home).unwrap();
        fs::write(&path, self.text(id)).unwrap();
        let player = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/data/scripted.py")
            .canonicalize()
            .unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        // Isolated, and without what only slows its start.
        ["-I".to_owned(), "-S".to_owned(), text(&player), text(&path)]
    }

    fn text(&self, id: &str) -> String {
        let mut script = self.0.clone();
        script["id"] = id.into();
        if script["capabilities"].is_null() {
            let has = |kind: Kind| !script["lists"][kind.list_method().name()].is_null();
            let mut said = serde_json::Map::new();
            for (word, has) in [
                ("tools", has(Kind::Tools)),
                ("resources", has(Kind::Resources) || has(Kind::Templates)),
                ("prompts", has(Kind::Prompts)),
            ] {
                if has {
                    said.insert(word.to_owned(), json!({ "listChanged": true }));
                }
            }
            script["capabilities"] = Value::Object(said).to_string().into();
        }
        script.to_string()
    }
}

impl Step {
    /// Answers with this raw result.
    pub fn result(raw: &str) -> Step {
        Step(json!({ "result": raw }))
    }

    /// Answers with this raw error object.
    pub fn error(raw: &str) -> Step {
        Step(json!({ "error": raw }))
    }

    /// Answers with a text of so many bytes.
    pub fn big(bytes: usize) -> Step {
        Step(json!({ "big": bytes }))
    }

    /// Asks the client something with this raw id and these raw params, and waits for the answer: `${answer}` in what
    /// follows, with its `result` or its `error`.
    pub fn ask(id: &str, method: &str, params: &str) -> Step {
        Step(json!({ "ask": { "id": id, "method": method, "params": params } }))
    }

    /// Does the one when it is called, and the other when it is called again with answers or a state.
    pub fn rounds(first: &[Step], then: &[Step]) -> Step {
        Step(json!({ "rounds": { "first": values(first), "then": values(then) } }))
    }

    /// Sends a raw message.
    pub fn send(raw: &str) -> Step {
        Step(json!({ "send": raw }))
    }

    /// Reports progress of the request, with the token it came with.
    pub fn progress(value: &str) -> Step {
        Step::send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":${{token}},"progress":{value}}}}}"#
        ))
    }

    /// Says that a list has changed.
    pub fn changed(kind: Kind) -> Step {
        Step::send(&format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, kind.changed().name()))
    }

    /// Writes bytes to the standard output.
    pub fn bytes(bytes: &[u8]) -> Step {
        Step(json!({ "bytes": bytes }))
    }

    /// Writes so many lines to the standard output that are no JSON.
    pub fn noise(lines: usize) -> Step {
        Step(json!({ "noise": lines }))
    }

    /// Writes so many lines to the standard error.
    pub fn stderr(lines: usize) -> Step {
        Step(json!({ "stderr": lines }))
    }

    /// Writes a line to the standard error.
    pub fn complains(line: &str) -> Step {
        Step(json!({ "complains": line }))
    }

    /// Does the one before the test opens this gate, and the other from then on.
    pub fn when(gate: &str, before: &[Step], then: &[Step]) -> Step {
        Step(json!({ "when": { "gate": gate, "before": values(before), "then": values(then) } }))
    }

    /// Waits until the test opens this gate: see `Journal::open`.
    pub fn gate(name: &str) -> Step {
        Step(json!({ "gate": name }))
    }

    /// Says nothing any more, for ever.
    pub fn silence() -> Step {
        Step(json!({ "silent": null }))
    }

    /// Ends the process.
    pub fn exit(code: u8) -> Step {
        Step(json!({ "exit": code }))
    }

    /// Lists these raw items from now on.
    pub fn list(kind: Kind, items: &[&str]) -> Step {
        Step(
            json!({ "list": { "method": kind.list_method().name(), "pages": paged(&[(None, items, None)]) } }),
        )
    }

    /// Keeps a copy of a file of the daemon's folder as it is at this moment: see `Journal::copied`.
    pub fn copy(path: &str) -> Step {
        Step(json!({ "copy": path }))
    }

    /// Leaves a word in the journal.
    pub fn note(word: &str) -> Step {
        Step(json!({ "note": word }))
    }
}

fn values(steps: &[Step]) -> Value {
    steps.iter().map(|step| step.0.clone()).collect()
}

fn paged(pages: &[(Option<&str>, &[&str], Option<&str>)]) -> Value {
    pages.iter().map(|(at, items, next)| json!({ "at": at, "items": items, "next": next })).collect()
}
