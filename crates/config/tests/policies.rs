//! Rules as they are written: what several files mean together, and what an operator is told of them.

use std::path::PathBuf;

use super::Memory;
use crate::{Effect, Loaded};

const TENANT: &str = "tenant: a
upstreams: { files: { command: npx }, github: { command: npx } }
virtual_servers: { outside: { upstreams: [github] } }
policies: [policies/a.yaml, policies/b.yaml]
";

const OTHER: &str = "rules: [{ name: other, effect: allow }]\n";

fn files(rules: &str, other: &str) -> Memory {
    Memory::of(&[
        ("portcullis.yaml", "keepalive: 15s\n"),
        ("tenants/a.yaml", TENANT),
        ("policies/a.yaml", rules),
        ("policies/b.yaml", other),
    ])
}

fn loaded(rules: &str) -> Loaded {
    files(rules, OTHER).loaded()
}

/// `LINE:COLUMN MESSAGE` of each warning or error about the first file.
fn told(rules: &str) -> Vec<String> {
    let problems = match files(rules, OTHER).load() {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    };
    let here = problems.into_iter().filter(|problem| problem.file.ends_with("policies/a.yaml"));
    here.map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.message)).collect()
}

#[test]
fn several_files_are_one_list_of_rules_and_the_strictest_default() {
    let rules = "default: allow\nrules: [{ name: one, effect: deny }, { name: two, effect: allow }]\n";
    for (other, default) in [(OTHER, Effect::Deny), (&*format!("default: allow\n{OTHER}"), Effect::Allow)] {
        let loaded = files(rules, other).loaded();
        let policy = loaded.config.tenants[0].policy.clone().unwrap();
        let names: Vec<&str> = policy.rules.iter().map(|rule| &*rule.name).collect();
        assert_eq!((&names[..], policy.default), (&["one", "two", "other"][..], default));
    }
    let read = ["portcullis.yaml", "tenants/a.yaml", "policies/a.yaml", "policies/b.yaml"].map(PathBuf::from);
    assert_eq!(loaded(rules).files, read, "what is watched for changes");
}

#[test]
fn a_file_without_rules_is_no_policy() {
    for text in ["", "# nothing yet\n", "default: deny\n", "rules: []\n", "---\n", "rules:\n"] {
        assert!(files(text, OTHER).load().is_err(), "{text:?}");
    }
}

#[test]
fn a_pattern_that_matches_nothing_is_told_of() {
    for (rule, expected) in [
        ("tools: [\"files__*\", \"*\", \"*__read\"]", None),
        ("tools: [\"file__*\"]", Some("`file__*` matches nothing: there is no upstream `file`")),
        ("tools: [files]", Some("`files` matches nothing: names are `UPSTREAM__NAME`")),
        (
            "tools: [\"files__x\"], upstreams: [github]",
            Some("`files__x` matches nothing: the rule is not about the upstream `files`"),
        ),
        ("tools: [\"files__x\"], upstreams: [\"f*\"]", None),
        ("prompts: [gitub__x]", Some("`gitub__x` matches nothing: there is no upstream `gitub`")),
        ("upstreams: [gitlab]", Some("`gitlab` matches no upstream")),
        ("servers: [default, outside]", None),
        ("servers: [outsite]", Some("`outsite` matches no virtual server")),
        ("resources: [\"file:///x/*\"]", None),
        (
            "resources: [\"files+file:///x\"]",
            Some("`files+file:///x` is how clients see it; rules know the URI of the server"),
        ),
        ("resources: [\"file:///x/../y\"]", Some("`file:///x/../y` has dots")),
    ] {
        let told = told(&format!("rules:\n  - {{ name: r, effect: deny, {rule} }}\n"));
        let told: Vec<&str> = told.iter().filter_map(|told| Some(told.split_once(' ')?.1)).collect();
        assert_eq!(told, expected.into_iter().collect::<Vec<_>>(), "{rule}");
    }
}

#[test]
fn a_test_at_a_place_that_does_not_exist_is_told_of() {
    let test = "tests:\n  - { read: \"file:///x\", upstream: github, server: outside, expect: allow }\n";
    let rules = format!("rules: [{{ name: mine, effect: allow }}]\n{test}");
    assert_eq!(told(&rules), [] as [&str; 0]);
    let wrong = rules.replace("upstream: github", "upstream: gitub").replace("outside", "inside");
    assert_eq!(
        told(&wrong),
        ["3:36 there is no upstream `gitub`", "3:51 there is no virtual server `inside`"]
    );
}

#[test]
fn a_fault_within_a_condition_is_told_where_it_is() {
    for (when, expected) in [
        ("'a && wrong'", "4:17 the condition is wrong"),
        ("\"é && wrong\"", "4:17 the condition is wrong"),
        ("a && wrong", "4:16 the condition is wrong"),
        // What is written over several lines or with escapes is told of where its text begins.
        ("|\n      a &&\n      wrong", "5:7 the condition is wrong"),
        ("'it''s wrong'", "4:11 the condition is wrong"),
    ] {
        let told = told(&format!("rules:\n  - name: r\n    effect: deny\n    when: {when}\n"));
        assert_eq!(told, [expected], "{when}");
    }
}
