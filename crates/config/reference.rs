//! Renders `docs/configuration.md` from the tables of `raw`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::form::{Form, Key, Off, Presence, Section};
use crate::raw;
use crate::reader::Written;

const INTRODUCTION: &str = "\
# Configuration

<!-- Generated from the tables in crates/config/raw.rs. Do not edit: UPDATE_EXPECT=1 cargo nextest run -p config -->

The process reads `portcullis.yaml`, the tenant files it names and the policy files they name, all YAML 1.2. `config/` holds files to copy. A path is
relative to the file it stands in. For editors there are JSON Schemas in `config/schema/`: put
`# yaml-language-server: $schema=…/portcullis.schema.json` (or `tenant.schema.json`, `policy.schema.json`) in the first line of a file.

## When something is wrong

Unknown keys, misspelt words, duplicate keys, values of the wrong type or out of range, patterns that do not compile,
missing variables and secrets, programs that are not installed: each stops the start with exit code 78. **All** problems of
all files are told at once, each with file, line, column, the line itself and advice. A key that this version knows and does
not act on is refused too: nothing that looks like a control is ever silently ignored.

## References

In the values of these files, and nowhere else:

| Written | Stands for |
|---|---|
| `${VAR}`, `${env:VAR}` | an environment variable; not set is a problem |
| `${VAR:-default}`, `${env:VAR:-default}` | the same, or `default` when it is not set or empty |
| `${secret:NAME}` | a secret; not set or empty is a problem. The file of this name in `secrets_dir`, `$PORTCULLIS_SECRETS` (`secrets/` beside the main file when that is not set) or systemd's `$CREDENTIALS_DIRECTORY`, without its last line end; else the variable `PORTCULLIS_SECRET_NAME`. In `env` and `credential` only (and in `args`, with a warning) |
| `${secret:UPSTREAM/NAME}` | a secret that only the upstream `UPSTREAM` may use |
| `$$` | a literal `$` |

References are replaced in single values after the YAML was read, so a value cannot bring keys or lists of its own, and what it
brings is not searched for references again. Keys are taken as they stand.

## Values

| Kind | Written |
|---|---|
| duration | whole numbers with units: `250ms`, `30s`, `15m`, `1h30m`, `2d`. A number without unit is refused |
| size | `512KiB`, `4MiB`, `1GiB`, or a number of bytes |
| id | `a-z` and `0-9`, with single `-` or `_` between, at most 24 characters |
| address | IP and port: `127.0.0.1:7420`, `[::1]:7420` |
| network | `10.0.0.0/8`, `fd00::/8`; one machine is `192.0.2.7/32` |
| file, folder | a path, relative to the file it is written in unless its line says otherwise |
| list | `[one, two]`, or one item a line after `- ` |

YAML reads `8080`, `true` and an empty value as number, truth value and nothing. Where text is expected, quote them.
Anchors, aliases and `<<` work; tags and directives are refused. A file may hold 1 MiB, 24 levels and 20,000 values.
";

/// The reference page, `docs/configuration.md`.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    for form in [raw::Process::form(), raw::Tenant::form(), raw::policy::PolicyFile::form()] {
        let mut sections = Vec::new();
        collect(&form, &mut sections);
        for (position, section) in sections.iter().enumerate() {
            let level = if position == 0 { "##" } else { "###" };
            let _ = write!(page, "\n{level} `{}`\n\n{}\n", section.title.replace(", ", "`, `"), section.doc);
            table(&mut page, &section.keys);
            refused(&mut page, section);
        }
    }
    page
}

/// Every section once, in the order of first mention.
fn collect<'a>(form: &'a Form, sections: &mut Vec<&'a Section>) {
    match form {
        Form::Scalar { .. } | Form::Choice(_) => {}
        Form::List(item) => collect(item, sections),
        Form::Map { value, .. } => collect(value, sections),
        Form::Section(section) | Form::WordOr(_, section) => {
            if sections.iter().any(|known| known.title == section.title) {
                return;
            }
            sections.push(section);
            for key in &section.keys {
                collect(&key.form, sections);
            }
        }
    }
}

fn table(page: &mut String, keys: &[Key]) {
    if keys.is_empty() {
        return;
    }
    page.push_str("\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n");
    for key in keys {
        let default = match &key.presence {
            Presence::Required => "**required**".to_owned(),
            Presence::Either { or } => format!("**required**, or `{or}`"),
            Presence::Optional | Presence::Default(Value::Null) => "".to_owned(),
            Presence::Default(value) => format!("`{}`", written(value)),
        };
        let (kind, doc) = (key.form.words(), meaning(key));
        let _ = writeln!(page, "| `{}` | {kind} | {default} | {doc} |", key.name);
    }
}

fn meaning(key: &Key) -> String {
    let mut doc = key.doc.clone();
    let form = match &key.form {
        Form::List(item) => item,
        form => form,
    };
    if let Form::Choice(choices) = form {
        for choice in *choices {
            let _ = write!(doc, " `{}`: {}.", choice.word, choice.doc);
            if let Some(why) = choice.refused {
                let _ = write!(doc, " Not available in this version: {why}.");
            }
        }
    }
    doc
}

fn refused(page: &mut String, section: &Section) {
    if section.refused.is_empty() {
        return;
    }
    page.push_str("\nNot available in this version, and refused:\n\n");
    for key in &section.refused {
        let off = match key.off {
            Off::Never => "",
            Off::EmptyList => " `[]` is accepted.",
            Off::Null => " `null` is accepted.",
        };
        let _ = writeln!(page, "* `{}`: {}.{off}", key.name, key.why);
    }
}

/// A value as YAML in one line.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(written).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name}: {}", written(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
    }
}
