//! A table of faulty configurations, each answered with file, line, column, message and advice.

use expect_test::expect;

use super::Memory;
use crate::render;

/// A tenant with nothing wrong, for faults of the main file.
const TENANT: &str = "tenant: a\nupstreams: { x: { command: npx } }\n";

struct Fault {
    name: &'static str,
    files: Vec<(&'static str, String)>,
    expected: Vec<&'static str>,
}

fn table() -> Vec<Fault> {
    include_str!("faults.txt").split("### ").skip(1).map(fault).collect()
}

fn fault(text: &'static str) -> Fault {
    let (name, rest) = text.split_once('\n').unwrap();
    let mut fault = Fault { name, files: Vec::new(), expected: Vec::new() };
    for part in format!("\n{rest}").leak().split("\n--- ").skip(1) {
        let (title, body) = part.split_once('\n').unwrap_or((part, ""));
        match title {
            "expect" => fault.expected = body.lines().filter(|line| !line.is_empty()).collect(),
            file => fault.files.push((file, format!("{body}\n"))),
        }
    }
    for (file, text) in [("portcullis.yaml", "keepalive: 15s\n"), ("tenants/a.yaml", TENANT)] {
        if !fault.files.iter().any(|(name, _)| *name == file) {
            fault.files.push((file, text.to_owned()));
        }
    }
    for (_, text) in &mut fault.files {
        if text.trim() == "not UTF-8" {
            "not UTF-8".clone_into(text);
        }
    }
    fault
}

fn memory(fault: &Fault) -> Memory {
    let files: Vec<(&str, &str)> = fault.files.iter().map(|(file, text)| (*file, text.as_str())).collect();
    Memory::of(&files)
}

#[test]
fn every_fault_is_told_with_its_place_and_advice() {
    let mut wrong = String::new();
    for fault in table() {
        let problems = memory(&fault).problems();
        let told: Vec<String> = problems
            .iter()
            .map(|problem| {
                let place = format!("{}:{}:{}", problem.file.display(), problem.line, problem.column);
                format!("{place} | {} | {}", problem.message, problem.hint.as_deref().unwrap_or_default())
            })
            .collect();
        let fits = |(told, expected): (&String, &&str)| {
            let parts: Vec<(&str, &str)> = told.splitn(3, '|').zip(expected.splitn(3, '|')).collect();
            parts.len() == 3
                && parts[0].0 == parts[0].1
                && parts.iter().all(|(told, part)| told.contains(part.trim()))
        };
        if told.len() != fault.expected.len() || !told.iter().zip(&fault.expected).all(fits) {
            wrong += &format!(
                "### {}\nexpected\n{}\ntold\n{}\n\n",
                fault.name,
                fault.expected.join("\n"),
                told.join("\n")
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_table_is_large_enough() {
    let table = table();
    assert!(table.len() >= 90, "{} faults", table.len());
    assert!(table.iter().any(|fault| fault.expected.len() >= 12));
}

#[test]
fn each_rendered_problem_begins_with_its_place() {
    for fault in table() {
        let problems = memory(&fault).problems();
        let text = render(&problems);
        for problem in &problems {
            let start = format!("{}:{}:{}: error: ", problem.file.display(), problem.line, problem.column);
            assert!(text.lines().any(|line| line.starts_with(&start)), "{}: {start} in\n{text}", fault.name);
        }
        assert!(!text.contains("hunter2"), "a confidential value is shown: {text}");
    }
}

#[test]
fn a_problem_shows_its_line_and_what_to_do() {
    let tenant = "tenant: a\nupstreams:\n  files:\n    comand: npx\n";
    let problems =
        Memory::of(&[("portcullis.yaml", "keepalive: 15\n"), ("tenants/a.yaml", tenant)]).problems();
    expect![[r#"
        portcullis.yaml:1:12: error: `15` has no unit (at `keepalive`)
          |
        1 | keepalive: 15
          |            ^^
          hint: write `15s` if seconds are meant

        tenants/a.yaml:4:5: error: unknown key `comand` (at `upstreams.files.comand`)
          |
        4 |     comand: npx
          |     ^^^^^^
          hint: did you mean `command`?

    "#]]
    .assert_eq(&render(&problems));
}
