//! `portcullis status`: the status page of a running gateway, for people or as it is.

use serde_json::{Map, Value};

use crate::{
    cli::{Form, StatusArgs, output},
    client,
    failure::Failure,
    run,
};

/// Shows the status of a running gateway.
pub(crate) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let url = format!("{}/status", args.operator.admin.trim_end_matches('/'));
    let page = run::on_one_thread(client::get(&url, args.operator.credential()?))?;
    let unreadable = |why: String| Failure::unavailable(format!("{url} is no status page: {why}"));
    let text = std::str::from_utf8(&page).map_err(|error| unreadable(error.to_string()))?;
    let status: Value = serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    match args.output.output {
        Form::Json => output::print(&output::harmless_json(text)),
        Form::Table => output::print(&readable(&status)),
    }
    Ok(())
}

/// Plain members first, one a line; then what is nested, under its name; then lists of objects as tables.
fn readable(status: &Value) -> String {
    let mut text = String::new();
    if let Value::Object(members) = status {
        section(&mut text, "", members);
    }
    text
}

fn section(text: &mut String, title: &str, members: &Map<String, Value>) {
    let name = |key: &str| if title.is_empty() { key.to_owned() } else { format!("{title}.{key}") };
    for (key, value) in members {
        if let Some(value) = plain(value) {
            text.push_str(&format!("{}: {value}\n", output::first_line(&name(key), 80)));
        }
    }
    for (key, value) in members {
        if let Value::Object(inner) = value {
            section(text, &name(key), inner);
        }
    }
    for (key, value) in members.iter().filter(|(_, value)| plain(value).is_none()) {
        if let Value::Array(items) = value {
            text.push_str(&listed(&name(key), items));
        }
    }
}

/// A list of objects as a table with a column for every plain member that any of them has, then the lists in them.
fn listed(title: &str, items: &[Value]) -> String {
    let objects: Vec<Map<String, Value>> = items.iter().filter_map(Value::as_object).map(flat).collect();
    let mut columns: Vec<&str> = Vec::new();
    for (key, value) in objects.iter().flatten() {
        if plain(value).is_some() && !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    let row = |object: &Map<String, Value>| -> Vec<String> {
        columns.iter().map(|column| object.get(*column).and_then(plain).unwrap_or_default()).collect()
    };
    let rows: Vec<_> = objects.iter().map(row).collect();
    let headings: Vec<String> =
        columns.iter().map(|column| output::first_line(&column.to_uppercase(), 80)).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut text = format!("\n{title}\n{}", output::table(&headings, &rows));
    for (at, object) in objects.iter().enumerate() {
        let name = ["name", "id"].iter().find_map(|key| object.get(*key).and_then(plain));
        let title = format!("{title}.{}", name.unwrap_or_else(|| at.to_string()));
        for (key, value) in object.iter().filter(|(_, value)| plain(value).is_none()) {
            let inner = Map::from_iter([(key.clone(), value.clone())]);
            section(&mut text, &title, &inner);
        }
    }
    text
}

/// The members of the objects in an object beside its own: `connection.state`.
fn flat(object: &Map<String, Value>) -> Map<String, Value> {
    let mut members = Map::new();
    for (key, value) in object {
        match value {
            Value::Object(inner) => {
                members.extend(inner.iter().map(|(name, value)| (format!("{key}.{name}"), value.clone())));
            }
            _ => {
                members.insert(key.clone(), value.clone());
            }
        }
    }
    members
}

/// A value that fits in a cell.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("-".to_owned()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(text) => Some(output::first_line(text, 100)),
        Value::Array(items) => {
            let words: Option<Vec<_>> =
                items.iter().map(|item| item.as_str().map(|text| output::first_line(text, 100))).collect();
            words.map(|words| if words.is_empty() { "-".to_owned() } else { words.join(", ") })
        }
        Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_status_is_readable_whatever_it_holds() {
        let status = serde_json::json!({
            "version": "0.1.0",
            "sessions": 3,
            "tenants": [{
                "name": "demo",
                "anonymous": true,
                "upstreams": [
                    { "id": "notes", "state": "up", "connection": { "pid": 3, "why": null } },
                    { "id": "clock", "state": "wai\u{1b}ting" },
                ],
                "warnings": ["a", "b"],
            }],
            "limits": { "body": 10 },
        });
        expect![[r#"
            version: 0.1.0
            sessions: 3
            limits.body: 10

            tenants
            NAME  ANONYMOUS  WARNINGS
            demo  true       a, b

            tenants.demo.upstreams
            ID     STATE          CONNECTION.PID  CONNECTION.WHY
            notes  up             3               -
            clock  wai\u{1b}ting
        "#]]
        .assert_eq(&readable(&status));
    }
}
