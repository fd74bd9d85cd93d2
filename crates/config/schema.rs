//! JSON Schemas for editors, from the tables of `raw`.

use serde_json::{Map, Value, json};

use crate::form::{Form, Off, Presence, Refused, Section};
use crate::raw;
use crate::reader::Written;

/// The JSON Schemas for editors: file name and text.
pub fn schemas() -> [(&'static str, String); 3] {
    [
        ("portcullis.schema.json", document(&raw::Process::form())),
        ("tenant.schema.json", document(&raw::Tenant::form())),
        ("policy.schema.json", document(&raw::policy::PolicyFile::form())),
    ]
}

fn document(form: &Form) -> String {
    let mut schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" });
    merge(&mut schema, of(form));
    // `{:#}` of a JSON value is its indented form.
    format!("{schema:#}\n")
}

fn of(form: &Form) -> Value {
    match form {
        Form::Scalar { schema, .. } => schema.clone(),
        Form::Choice(choices) => {
            let known = choices.iter().filter(|choice| choice.refused.is_none());
            let words: Vec<&str> = known.map(|choice| choice.word).collect();
            json!({ "anyOf": [{ "enum": words }, reference()] })
        }
        Form::List(item) => json!({ "type": "array", "items": of(item) }),
        Form::Map { value, .. } => json!({ "type": "object", "additionalProperties": of(value) }),
        Form::Section(section) => mapping(section),
        Form::WordOr(choice, section) => json!({ "anyOf": [{ "const": choice.word }, mapping(section)] }),
    }
}

fn mapping(section: &Section) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut either = Vec::new();
    for key in &section.keys {
        let mut schema = of(&key.form);
        merge(&mut schema, json!({ "description": key.doc }));
        match &key.presence {
            Presence::Required => required.push(key.name),
            Presence::Either { or } => {
                let both = [json!({ "required": [key.name] }), json!({ "required": [or] })];
                either.push(json!({ "oneOf": both }));
            }
            Presence::Optional | Presence::Default(Value::Null) => {}
            Presence::Default(value) => merge(&mut schema, json!({ "default": value })),
        }
        properties.insert(key.name.to_owned(), schema);
    }
    for key in &section.refused {
        properties.insert(key.name.to_owned(), refused(*key));
    }
    let mut schema = json!({
        "title": section.title,
        "description": section.doc,
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    if !required.is_empty() {
        merge(&mut schema, json!({ "required": required }));
    }
    match either.len() {
        0 => {}
        1 => either.into_iter().for_each(|one| merge(&mut schema, one)),
        _ => merge(&mut schema, json!({ "allOf": either })),
    }
    schema
}

fn refused(key: Refused) -> Value {
    let mut schema = match key.off {
        Off::Never => json!({ "not": {} }),
        Off::EmptyList => json!({ "const": [] }),
        Off::Null => json!({ "const": null }),
    };
    merge(&mut schema, json!({ "description": format!("Not available in this version: {}.", key.why) }));
    schema
}

/// A reference may stand wherever a scalar may.
pub(crate) fn reference() -> Value {
    json!({ "type": "string", "pattern": r"\$\{" })
}

fn merge(schema: &mut Value, more: Value) {
    if let (Value::Object(schema), Value::Object(more)) = (schema, more) {
        schema.extend(more);
    }
}
