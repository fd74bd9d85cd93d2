//! The demo's notes: tools that change something, resources that follow, a prompt with completion.

use serde_json::{Map, Value, json};

use super::{
    server::{Fault, Request, Server, failed, text, told},
    stdio::Pipe,
};

/// Every queue and store has an end, this one too.
const MOST: usize = 1000;
const LONGEST: usize = 10_000;

/// Notes in memory, gone with the process.
pub(super) struct Notes {
    notes: Vec<String>,
}

impl Notes {
    /// Notes with something in them.
    pub(super) fn new() -> Notes {
        let first = "A portcullis is the grille that closes a castle's gate.";
        let second = "Every list, call and read goes through one gate here, and leaves a record.";
        Notes { notes: vec![first.to_owned(), second.to_owned()] }
    }

    fn call(&mut self, name: &str, arguments: &Map<String, Value>, pipe: &mut Pipe) -> Result<Value, Fault> {
        match name {
            "add" => self.add(text(arguments, "text")?, pipe),
            "list" => Ok(self.shown(|_| true)),
            "search" => {
                let query = text(arguments, "query")?.to_lowercase();
                Ok(self.shown(|note| note.to_lowercase().contains(&query)))
            }
            "clear" => {
                self.notes.clear();
                pipe.notify("notifications/resources/list_changed", &json!({}));
                Ok(told("no notes are left".to_owned(), &json!({ "notes": [] })))
            }
            _ => Err(Fault::params(format!("unknown tool `{name}`"))),
        }
    }

    fn add(&mut self, note: &str, pipe: &mut Pipe) -> Result<Value, Fault> {
        if self.notes.len() == MOST || note.len() > LONGEST {
            return Ok(failed(format!("at most {MOST} notes of {LONGEST} bytes are kept")));
        }
        self.notes.push(note.to_owned());
        pipe.notify("notifications/resources/list_changed", &json!({}));
        let id = self.notes.len();
        Ok(told(format!("kept as note {id}"), &json!({ "id": id, "uri": uri(id) })))
    }

    fn shown(&self, wanted: impl Fn(&str) -> bool) -> Value {
        let found: Vec<_> = self.numbered().filter(|(_, note)| wanted(note)).collect();
        let lines: Vec<_> = found.iter().map(|(id, note)| format!("{id}. {note}")).collect();
        let notes: Vec<_> = found.iter().map(|(id, note)| json!({ "id": id, "text": note })).collect();
        let text = if lines.is_empty() { "no notes".to_owned() } else { lines.join("\n") };
        told(text, &json!({ "notes": notes }))
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.notes.iter().enumerate().map(|(at, note)| (at + 1, note.as_str()))
    }

    fn read(&self, uri: &str) -> Result<Value, Fault> {
        let id = uri.strip_prefix("note://").and_then(|id| id.parse::<usize>().ok());
        let note = id.and_then(|id| self.notes.get(id.checked_sub(1)?));
        let note = note.ok_or_else(|| Fault::Error {
            code: wire::code::RESOURCE_NOT_FOUND,
            message: format!("no note at `{uri}`"),
        })?;
        Ok(json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": note }] }))
    }

    fn prompt(&self, request: &Request<'_>) -> Result<Value, Fault> {
        if request.text("name")? != "summarize" {
            return Err(Fault::params("unknown prompt"));
        }
        let arguments = request.object("arguments");
        let topic = text(&arguments, "topic")?;
        let wanted = topic.to_lowercase();
        let about: Vec<_> = self
            .numbered()
            .filter(|(_, note)| note.to_lowercase().contains(&wanted))
            .map(|(id, note)| format!("{id}. {note}"))
            .collect();
        let text = format!("Summarize what these notes say about {topic}:\n\n{}", about.join("\n"));
        Ok(json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] }))
    }

    /// Words of the notes that begin like what was typed.
    fn complete(&self, request: &Request<'_>) -> Result<Value, Fault> {
        let argument = request.object("argument");
        let typed = text(&argument, "value")?.to_lowercase();
        let words = self.notes.iter().flat_map(|note| note.split(|c: char| !c.is_alphanumeric()));
        let mut words: Vec<_> =
            words.map(str::to_lowercase).filter(|word| word.len() > 3 && word.starts_with(&typed)).collect();
        words.sort();
        words.dedup();
        let total = words.len();
        words.truncate(100);
        Ok(json!({ "completion": { "values": words, "total": total, "hasMore": total > 100 } }))
    }
}

impl Server for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn capabilities(&self) -> Value {
        json!({ "tools": {}, "resources": { "listChanged": true }, "prompts": {}, "completions": {} })
    }

    fn instructions(&self) -> &'static str {
        "Keeps short notes until the demo ends."
    }

    fn answer(&mut self, request: &Request<'_>, pipe: &mut Pipe) -> Result<Value, Fault> {
        match request.method {
            "tools/list" => Ok(tools()),
            "tools/call" => self.call(request.text("name")?, &request.object("arguments"), pipe),
            "resources/list" => {
                let resources: Vec<_> = self
                    .numbered()
                    .map(|(id, _)| json!({ "uri": uri(id), "name": format!("note {id}"), "mimeType": "text/plain" }))
                    .collect();
                Ok(json!({ "resources": resources }))
            }
            "resources/templates/list" => Ok(json!({ "resourceTemplates": [
                { "uriTemplate": "note://{id}", "name": "note", "mimeType": "text/plain" },
            ] })),
            "resources/read" => self.read(request.text("uri")?),
            "prompts/list" => Ok(json!({ "prompts": [{
                "name": "summarize",
                "description": "Summarize the notes about a topic",
                "arguments": [{ "name": "topic", "description": "A word in the notes", "required": true }],
            }] })),
            "prompts/get" => self.prompt(request),
            "completion/complete" => self.complete(request),
            method => Err(Fault::method(method)),
        }
    }
}

fn uri(id: usize) -> String {
    format!("note://{id}")
}

fn tools() -> Value {
    let input = |name: &str, what: &str| {
        json!({
            "type": "object",
            "properties": { name: { "type": "string", "description": what } },
            "required": [name],
            "additionalProperties": false,
        })
    };
    let note = json!({
        "type": "object",
        "properties": { "id": { "type": "integer" }, "text": { "type": "string" } },
        "required": ["id", "text"],
    });
    let notes = json!({
        "type": "object",
        "properties": { "notes": { "type": "array", "items": note } },
        "required": ["notes"],
    });
    let kept = json!({
        "type": "object",
        "properties": { "id": { "type": "integer" }, "uri": { "type": "string" } },
        "required": ["id", "uri"],
    });
    json!({ "tools": [
        {
            "name": "add",
            "description": "Keep a note",
            "inputSchema": input("text", "What to keep"),
            "outputSchema": kept,
            "annotations": { "readOnlyHint": false, "destructiveHint": false },
        },
        {
            "name": "list",
            "description": "List all notes",
            "inputSchema": { "type": "object", "additionalProperties": false },
            "outputSchema": notes,
            "annotations": { "readOnlyHint": true },
        },
        {
            "name": "search",
            "description": "Find the notes that contain a text",
            "inputSchema": input("query", "The text to look for"),
            "outputSchema": notes,
            "annotations": { "readOnlyHint": true },
        },
        {
            "name": "clear",
            "description": "Throw all notes away",
            "inputSchema": { "type": "object", "additionalProperties": false },
            "outputSchema": notes,
            "annotations": { "readOnlyHint": false, "destructiveHint": true },
        },
    ] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{server::serve, stdio::tests::pipe};

    /// The answers to some requests, and whatever else the server said.
    fn talk(requests: &[(&str, Value)]) -> Vec<Value> {
        let messages: Vec<_> = requests
            .iter()
            .enumerate()
            .map(|(id, (method, params))| json!({ "id": id, "method": method, "params": params }))
            .collect();
        let (mut pipe, written, open) = pipe(&messages);
        drop(open);
        serve(&mut Notes::new(), &mut pipe);
        written.messages()
    }

    #[test]
    fn a_note_is_kept_found_and_read() {
        let add = json!({ "name": "add", "arguments": { "text": "Drawbridges go up" } });
        let search = json!({ "name": "search", "arguments": { "query": "DRAWBRIDGE" } });
        let said = talk(&[
            ("tools/call", add),
            ("tools/call", search),
            ("resources/read", json!({ "uri": "note://3" })),
            ("resources/list", json!({})),
        ]);
        assert_eq!(said[0]["method"], "notifications/resources/list_changed");
        assert_eq!(said[1]["result"]["structuredContent"], json!({ "id": 3, "uri": "note://3" }));
        assert_eq!(said[2]["result"]["content"][0]["text"], "3. Drawbridges go up");
        assert_eq!(said[3]["result"]["contents"][0]["text"], "Drawbridges go up");
        assert_eq!(said[4]["result"]["resources"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_prompt_is_filled_in_and_completed() {
        let get = json!({ "name": "summarize", "arguments": { "topic": "castle" } });
        let complete = json!({
            "ref": { "type": "ref/prompt", "name": "summarize" },
            "argument": { "name": "topic", "value": "ca" },
        });
        let said = talk(&[("prompts/get", get), ("completion/complete", complete)]);
        let text = said[0]["result"]["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("1. A portcullis") && !text.contains("2. "), "{text}");
        assert_eq!(said[1]["result"]["completion"]["values"], json!(["call", "castle"]));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        for (method, params, code) in [
            ("tools/call", json!({ "name": "burn", "arguments": {} }), -32602),
            ("tools/call", json!({ "name": "add", "arguments": { "text": 1 } }), -32602),
            ("resources/read", json!({ "uri": "note://0" }), -32002),
            ("resources/read", json!({ "uri": "note://99" }), -32002),
            ("prompts/get", json!({ "name": "none" }), -32602),
            ("logging/setLevel", json!({}), -32601),
        ] {
            assert_eq!(talk(&[(method, params)])[0]["error"]["code"], code, "{method}");
        }
    }
}
