//! The files under `config/` load, and what is generated is in step.

use std::path::Path;

use expect_test::{ExpectFile, expect_file};
use serde_json::Value;

use super::Memory;
use crate::form::{Form, Presence, Section};
use crate::reader::Written;
use crate::reference::written;
use crate::{Transport, raw, reference, render, schemas};

const MAIN: &str = include_str!("../../../config/portcullis.yaml");
const TENANT: &str = include_str!("../../../config/tenants/acme.yaml");
const POLICY: &str = include_str!("../../../config/policies/acme.yaml");
const TEAM: &str = include_str!("../../../config/team.yaml");
const TEAM_TENANT: &str = include_str!("../../../config/team/globex.yaml");
const TEAM_POLICY: &str = include_str!("../../../config/policies/globex.yaml");

/// The example of one tenant, with this main file.
fn acme(main: &str) -> Memory {
    Memory::of(&[("portcullis.yaml", main), ("tenants/acme.yaml", TENANT), ("policies/acme.yaml", POLICY)])
}

#[test]
fn every_example_file_loads_without_a_problem() {
    let loaded = acme(MAIN).loaded();
    let ids: Vec<&str> = loaded.config.tenants[0].upstreams.iter().map(|upstream| &*upstream.id).collect();
    assert_eq!(ids, ["files", "time", "git", "memory"]);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let policy = loaded.config.tenants[0].policy.as_ref().unwrap();
    assert!(!policy.rules.is_empty() && !policy.tests.is_empty());
}

#[test]
fn the_example_for_a_team_loads_without_a_problem() {
    let loaded = Memory::of(&[
        ("portcullis.yaml", TEAM),
        ("team/globex.yaml", TEAM_TENANT),
        ("policies/globex.yaml", TEAM_POLICY),
    ])
    .loaded();
    let tenant = &loaded.config.tenants[0];
    let identity = tenant.identity.as_ref().unwrap();
    assert!(identity.keys && identity.local && identity.issuers.len() == 1);
    assert!(tenant.upstreams.iter().all(|upstream| matches!(upstream.transport, Transport::Http { .. })));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let policy = loaded.config.tenants[0].policy.as_ref().unwrap();
    assert!(!policy.rules.is_empty() && !policy.tests.is_empty());
}

#[test]
fn every_key_of_a_tenant_is_in_an_example() {
    fn look(form: &Form) {
        match form {
            // Credentials have a page of their own, whose examples are tested there.
            Form::Scalar { .. } | Form::Choice(_) | Form::WordOr(..) => {}
            Form::List(item) => look(item),
            Form::Map { value, .. } => look(value),
            // So have limits.
            Form::Section(section) if ["limits", "taint"].contains(&section.title) => {}
            Form::Section(section) => {
                for key in &section.keys {
                    let written = format!("{}:", key.name);
                    let shown =
                        [TENANT, TEAM_TENANT, POLICY, TEAM_POLICY].iter().any(|text| text.contains(&written));
                    // Escapes and bounds that most tenants never need.
                    let rare =
                        ["dir", "prompts", "resources", "max_tools", "start", "call_max", "list", "answer"];
                    let rarer = [
                        "extensions",
                        "limits",
                        "runaway",
                        "taint",
                        "processes",
                        "mixed_trust",
                        "insecure",
                        "names",
                        "error_status",
                        "allow",
                        "label",
                        "methods",
                        "read",
                        "readOnly",
                        "scopes",
                        "required_scopes",
                        "tool_scopes",
                        "scope_hierarchy",
                        "introspection",
                        "url",
                        "client_id",
                        "client_secret",
                        "cache",
                        "leeway",
                        "upstream",
                        "tenant",
                        "claims",
                        "ids",
                        "id",
                        "destructive",
                        "trust",
                        "principal",
                        "tool",
                        "prompt",
                    ];
                    let rare = [&rare[..], &rarer].concat();
                    assert!(shown || rare.contains(&key.name), "`{}` is not shown", key.name);
                    look(&key.form);
                }
            }
        }
    }
    look(&raw::Tenant::form());
    look(&raw::policy::PolicyFile::form());
}

#[test]
fn no_piece_of_a_file_brings_the_loader_down() {
    let tenant =
        format!("{TENANT}  größe: {{ include: [\"(é\", \"\\u00e9\"], includeRegex: [\"é(\", 'x{{é'] }}\n");
    for (main, tenant) in [(MAIN, tenant.as_str()), (TEAM, TEAM_TENANT)] {
        // Every seventh place is near enough to every token.
        for at in (0..tenant.len()).step_by(7).filter(|at| tenant.is_char_boundary(*at)) {
            let (before, after) = tenant.split_at(at);
            for text in [before.to_owned(), after.to_owned(), format!("{before}:\t\"é{after}")] {
                let files = [("portcullis.yaml", main), ("tenants/a.yaml", &text), ("team/a.yaml", &text)];
                let problems = Memory::of(&files).problems();
                assert_eq!(render(&problems).is_empty(), problems.is_empty());
            }
        }
    }
}

#[test]
fn no_other_file_lies_in_the_example_folder() {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.file_name().unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    let examples = ["acme.yaml", "globex.yaml", "portcullis.yaml", "team.yaml"];
    let generated = ["policy.schema.json", "portcullis.schema.json", "tenant.schema.json"];
    let mut expected = [&examples[..], &["acme.yaml", "globex.yaml"], &generated].concat();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn the_example_shows_every_default() {
    let Form::Section(process) = raw::Process::form() else { panic!("the process is a mapping") };
    let bare = acme("keepalive: 15s\n").loaded();
    let shown = acme(MAIN).loaded();
    assert_eq!(format!("{:?}", shown.config), format!("{:?}", bare.config));
    every_key_is_in(MAIN, &process);
}

fn every_key_is_in(text: &str, section: &Section) {
    for key in &section.keys {
        assert!(text.contains(&format!("{}:", key.name)), "`{}` is not shown", key.name);
        match (&key.form, &key.presence) {
            (Form::Section(inner), _) => every_key_is_in(text, inner),
            (_, Presence::Default(value)) => {
                let shown = format!("{}: {}", key.name, written(value));
                assert!(text.contains(&shown), "`{shown}` is not shown");
            }
            (_, Presence::Optional | Presence::Required | Presence::Either { .. }) => {}
        }
    }
}

#[test]
fn the_reference_page_is_in_step() {
    expect_file!["../../../docs/configuration.md"].assert_eq(&reference());
}

#[test]
fn the_schemas_are_in_step() {
    let files: [ExpectFile; 3] = [
        expect_file!["../../../config/schema/portcullis.schema.json"],
        expect_file!["../../../config/schema/tenant.schema.json"],
        expect_file!["../../../config/schema/policy.schema.json"],
    ];
    for ((name, text), file) in schemas().into_iter().zip(files) {
        assert!(file.path.ends_with(name));
        serde_json::from_str::<Value>(&text).unwrap();
        file.assert_eq(&text);
    }
}

#[test]
fn every_key_has_a_doc_line() {
    fn look(form: &Form) {
        match form {
            Form::Scalar { words, .. } => assert!(!words.is_empty()),
            Form::Choice(choices) => assert!(choices.iter().all(|choice| !choice.doc.is_empty())),
            Form::List(item) => look(item),
            Form::Map { value, .. } => look(value),
            Form::Section(section) | Form::WordOr(_, section) => {
                assert!(!section.doc.is_empty(), "{}", section.title);
                for key in &section.keys {
                    assert!(key.doc.ends_with(['.', '`']), "{}.{}: {}", section.title, key.name, key.doc);
                    look(&key.form);
                }
            }
        }
    }
    look(&raw::Process::form());
    look(&raw::Tenant::form());
    look(&raw::policy::PolicyFile::form());
}
