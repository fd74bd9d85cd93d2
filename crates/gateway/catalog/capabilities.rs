//! What `initialize` promises for a virtual server (spec 1.5).

use std::collections::BTreeMap;

use config::Pattern;
use serde_json::value::RawValue;
use wire::{Capability, task};

/// What upstreams said of themselves; none for those that have not answered yet.
pub(super) struct Introductions<'a> {
    /// Raw `capabilities` of those that answered.
    pub(super) known: Vec<&'a str>,
    /// Some have not answered yet: what they might have is promised, a list of nothing is no lie.
    pub(super) more: bool,
}

/// What is promised.
pub(super) struct Merged {
    /// To everybody, raw JSON.
    pub(super) capabilities: String,
    pub(super) extras: Extras,
    /// All of it as a list for asking.
    pub(super) promised: Vec<Capability>,
}

/// What only some are promised, as members of `capabilities`.
#[derive(Debug)]
pub(crate) struct Extras {
    /// The operator's `extensions`, for sessions (bug B32).
    pub(crate) passed: String,
    /// The same with tasks, which are an extension only where there is no handshake (spec U-30).
    pub(crate) extensions: String,
    /// Whether a server takes tasks that a client of 2025-11-25 may ask for (spec U-30).
    pub(crate) takes_tasks: bool,
}

/// The merged capabilities.
pub(super) fn merged(said: &Introductions<'_>, extensions: &[Pattern]) -> Merged {
    let known: Vec<BTreeMap<String, &RawValue>> =
        said.known.iter().filter_map(|raw| serde_json::from_str(raw).ok()).collect();
    let has = |key: &str| known.iter().any(|said| said.contains_key(key));
    let mut members = Vec::new();
    let mut promised = Vec::new();
    // Whose URIs can be subscribed to is said for each of them (spec R-08).
    let subscribe = said.more || known.iter().any(|said| said.get("resources").is_some_and(can_subscribe));
    // `listChanged` is always true: the gateway compares lists itself, whatever the upstream announces.
    for (key, capability) in
        [("tools", Capability::Tools), ("prompts", Capability::Prompts), ("resources", Capability::Resources)]
    {
        if said.more || has(key) {
            let more =
                if subscribe && capability == Capability::Resources { ",\"subscribe\":true" } else { "" };
            members.push(format!("\"{key}\":{{\"listChanged\":true{more}}}"));
            promised.push(capability);
        }
    }
    if !promised.is_empty() {
        promised.push(Capability::Subscriptions);
    }
    if subscribe {
        promised.push(Capability::ResourcesSubscribe);
    }
    for (key, capability) in [("completions", Capability::Completions), ("logging", Capability::Logging)] {
        if said.more || has(key) {
            members.push(format!("\"{key}\":{{}}"));
            promised.push(capability);
        }
    }
    let mut extensions = merged_extensions(&known, extensions);
    let passed = member(&extensions);
    if promised.contains(&Capability::Tools) {
        // Whatever the servers take: a call that takes long, or asks, can become a task of ours (spec X-08).
        extensions.insert(task::EXTENSION.to_owned(), "{}".to_owned());
        promised.extend([Capability::Tasks, Capability::TasksList]);
    }
    let extras = Extras {
        passed,
        extensions: member(&extensions),
        takes_tasks: said.known.iter().any(|raw| task::offers_calls(raw) || task::declares(raw)),
    };
    Merged { capabilities: format!("{{{}}}", members.join(",")), extras, promised }
}

/// `extensions` as a further member of an object; nothing without any.
fn member(extensions: &BTreeMap<String, String>) -> String {
    let settings = extensions.iter().map(|(id, settings)| format!("{}:{settings}", wire::code::quote(id)));
    match settings.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => none,
        settings => format!(",\"extensions\":{{{settings}}}"),
    }
}

/// Whether a server's `resources` say that it tells of single resources.
fn can_subscribe(resources: &&RawValue) -> bool {
    wire::meta::member(Some(resources.get()), "subscribe") == Some("true")
}

/// Extensions on the operator's list that at least one upstream has. Upstreams that disagree on the
/// settings cost the extension its place: one of the two would be promised what it does not keep.
fn merged_extensions(known: &[BTreeMap<String, &RawValue>], allowed: &[Pattern]) -> BTreeMap<String, String> {
    let mut merged: BTreeMap<String, Option<String>> = BTreeMap::new();
    for said in known.iter().filter_map(|said| said.get("extensions")) {
        let Ok(extensions) = serde_json::from_str::<BTreeMap<String, &RawValue>>(said.get()) else {
            continue;
        };
        for (id, settings) in extensions {
            if !allowed.iter().any(|pattern| pattern.matches(&id)) {
                continue;
            }
            let settings = settings.get().to_owned();
            merged
                .entry(id)
                .and_modify(|kept| {
                    if kept.as_ref() != Some(&settings) {
                        *kept = None;
                    }
                })
                .or_insert(Some(settings));
        }
    }
    merged.into_iter().filter_map(|(id, settings)| Some((id, settings?))).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(known: &[&str], more: bool, allowed: &[&str], expected: &Expect) {
        let allowed: Vec<_> = allowed.iter().map(|glob| Pattern::glob(glob).expect("a glob")).collect();
        let Merged { capabilities, extras, .. } =
            merged(&Introductions { known: known.to_vec(), more }, &allowed);
        let extensions = extras.extensions;
        assert_eq!(
            extensions.replace(r#""io.modelcontextprotocol/tasks":{}"#, ""),
            match &*extras.passed {
                "" if extensions.contains("tasks") => r#","extensions":{}"#,
                passed => passed,
            }
        );
        let tasks = if extras.takes_tasks { " tasks" } else { "" };
        expected.assert_eq(&format!("{capabilities}{extensions}{tasks}"));
    }

    #[test]
    fn only_what_somebody_has_is_promised() {
        check(
            &[r#"{"tools":{},"logging":{},"experimental":{"x":{}}}"#, r#"{"prompts":{"listChanged":false}}"#],
            false,
            &[],
            &expect![[
                r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"logging":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}"#
            ]],
        );
        check(
            &[r#"{"resources":{"subscribe":false}}"#],
            false,
            &[],
            &expect![[r#"{"resources":{"listChanged":true}}"#]],
        );
        check(
            &[r#"{"resources":{"subscribe":false}}"#, r#"{"resources":{"subscribe":true}}"#],
            false,
            &[],
            &expect![[r#"{"resources":{"listChanged":true,"subscribe":true}}"#]],
        );
        check(&[], false, &[], &expect!["{}"]);
    }

    #[test]
    fn an_upstream_that_has_not_answered_may_have_anything() {
        check(
            &[],
            true,
            &[],
            &expect![[
                r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}"#
            ]],
        );
    }

    #[test]
    fn extensions_pass_by_allow_list_and_only_without_conflict() {
        let one = r#"{"extensions":{"example.org/x":{"v":1},"example.org/y":{},"other.org/z":{}}}"#;
        let two = r#"{"extensions":{"example.org/x":{"v":2}}}"#;
        check(
            &[one],
            false,
            &["example.org/*"],
            &expect![[r#"{},"extensions":{"example.org/x":{"v":1},"example.org/y":{}}"#]],
        );
        check(&[one, two], false, &["example.org/*"], &expect![[r#"{},"extensions":{"example.org/y":{}}"#]]);
        check(&[one], false, &[], &expect!["{}"]);
    }
}
