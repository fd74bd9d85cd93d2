//! The house rules that a program can check: sizes, names, directions, documents that keep step.

mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use source::{
    Kind, Source, backticked, dependencies, files, functions, headings, is_test_file, links, metric_names,
    read, report, root, sources, stands_alone, table_lines, uses,
};

/// Which workspace crates a crate may use, and does. Arrows point from what changes often to what
/// changes seldom (docs/architecture.md).
const DIRECTIONS: [(&str, &[&str]); 10] = [
    ("portcullis", &["config", "gateway", "upstream", "wire"]),
    ("gateway", &["admission", "config", "upstream", "wire"]),
    ("upstream", &["wire"]),
    ("admission", &["wire"]),
    ("config", &[]),
    ("wire", &[]),
    ("testkit", &["wire"]),
    ("bench", &[]),
    ("conformance-fixture", &[]),
    ("properties", &["config", "wire"]),
];

/// Crates that must build, and be tested, without the network stack.
const PURE: [&str; 3] = ["wire", "admission", "config"];
const RUNTIME: [&str; 7] = ["tokio", "tokio-util", "hyper", "hyper-util", "axum", "tower", "sqlx"];
/// Used by the daemon and by no other part of the product.
const RIM: [&str; 4] = ["axum", "clap", "tower", "anyhow"];

/// The files, below `crates`, in which something is started that outlives the function that starts it. Each awaits or
/// stops what it starts; those of `upstream` named `stdio.rs` and `supervisor.rs` and `browser.rs` start processes,
/// `audit.rs`, `lanes.rs`, `pipes.rs` and the demo threads, the others tasks.
const SPAWNING: [&str; 21] = [
    "daemon/cli/connect/login/browser.rs",
    "daemon/cli/connect/pipes.rs",
    "daemon/demo/stdio.rs",
    "daemon/lanes.rs",
    "daemon/listen.rs",
    "daemon/run.rs",
    "gateway/asking/parking.rs",
    "gateway/audit.rs",
    "gateway/catalog/refresh.rs",
    "gateway/running.rs",
    "gateway/subscriptions.rs",
    "gateway/tasks/awaited.rs",
    "gateway/tasks/hosting.rs",
    "upstream/pool.rs",
    "upstream/remote.rs",
    "upstream/remote/legacy_sse.rs",
    "upstream/remote/opening.rs",
    "upstream/remote/post.rs",
    "upstream/stdio.rs",
    "upstream/supervisor.rs",
    "upstream/upstream.rs",
];

/// Servers that are made to be slow, or to fail.
const SCRIPTED: [&str; 2] = ["crates/testkit/", "tests/conformance/fixture/"];

/// Words that say nothing about what a file is for.
const EMPTY_NAMES: [&str; 11] =
    ["utils", "util", "common", "helpers", "helper", "manager", "handler", "handlers", "data", "ctx", "misc"];

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;

// ---------------------------------------------------------------- rules about Rust files

#[test]
fn every_file_says_first_what_it_is_for() {
    let silent = sources().into_iter().filter(|source| !source.text.starts_with("//! "));
    report("begin with a line `//! what this file is for`", silent.map(|source| source.path));
}

#[test]
fn files_end_before_the_wall() {
    let long = sources().into_iter().filter(|source| !is_test_file(&source.path)).filter_map(|source| {
        let lines = source.production().lines().count() - table_lines(source.production());
        (lines > FILE_LINES).then(|| format!("{}: {lines} lines", source.path))
    });
    report("at most 500 lines a file, tables and tests at the foot not counted: split by subject", long);
}

#[test]
fn functions_end_before_the_wall() {
    let long = sources().into_iter().flat_map(|source| {
        let long = functions(&source.code).into_iter().filter(|function| function.lines > FUNCTION_LINES);
        long.map(move |f| format!("{}:{}: `{}` has {} lines", source.path, f.line, f.name, f.lines))
            .collect::<Vec<_>>()
    });
    report("at most 70 lines of code a function", long);
}

#[test]
fn no_file_or_module_has_an_empty_name() {
    let empty = |name: &str| name.split('_').any(|word| EMPTY_NAMES.contains(&word));
    let mut found = Vec::new();
    for source in sources() {
        if source.path.trim_end_matches(".rs").split('/').any(empty) {
            found.push(source.path.clone());
        }
        let names = source.code.lines().filter_map(|line| line.trim().split_once("mod "));
        found.extend(
            names
                .filter(|(before, _)| before.is_empty() || before.starts_with("pub"))
                .map(|(_, rest)| rest.trim_end_matches([' ', '{', '}', ';']))
                .filter(|name| empty(name))
                .map(|name| format!("{}: mod {name}", source.path)),
        );
    }
    report("name the subject, not the absence of one", found);
}

#[test]
fn nothing_is_unsafe() {
    report("`unsafe` is not used here", uses(&sources(), |source| &source.code, &["unsafe"]));
}

#[test]
fn nothing_is_left_for_later() {
    let words =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!"), concat!("unimple", "mented!")];
    report("finish it or leave it out", uses(&sources(), |source| &source.text, &words));
}

#[test]
fn tests_do_not_sleep() {
    // A scripted upstream may be slow on purpose; a test may not wait for luck.
    let tests: Vec<_> = sources()
        .into_iter()
        .filter(|source| !SCRIPTED.iter().any(|part| source.path.starts_with(part)))
        .collect();
    report(
        "wait for the event itself, or pause the clock",
        uses(&tests, Source::tests, &["sleep", "sleep_until", "sleep_ms"]),
    );
}

#[test]
fn every_test_runs_and_none_expects_a_panic() {
    let found = sources().into_iter().flat_map(|source| {
        let lines = source.code.lines().enumerate();
        lines
            .filter(|(_, line)| line.contains("#[ignore") || line.contains("#[should_panic"))
            .map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim()))
            .collect::<Vec<_>>()
    });
    report("a test that does not run proves nothing", found);
}

#[test]
fn tasks_start_only_where_they_are_awaited() {
    let found = sources().into_iter().filter(|source| {
        source.path.strip_prefix("crates/").is_some_and(|file| !SPAWNING.contains(&file))
            && !source.path.starts_with("crates/testkit/")
            && !source.is_tests()
            && [".spawn(", "tokio::spawn(", "task::spawn(", "spawn_local(", "thread::spawn("]
                .iter()
                .any(|start| source.production_code().contains(start))
    });
    report(
        &format!("tasks and processes start in {} only (invariant 13)", SPAWNING.join(", ")),
        found.map(|source| source.path),
    );
}

// ---------------------------------------------------------------- rules about crates

#[test]
fn crates_depend_in_one_direction() {
    let expected: BTreeMap<_, BTreeSet<String>> =
        DIRECTIONS.iter().map(|(from, to)| (*from, to.iter().map(|to| to.to_string()).collect())).collect();
    let mut found = Vec::new();
    let packages = dependencies();
    assert_eq!(packages.len(), DIRECTIONS.len(), "`cargo metadata` lists every crate of the workspace");
    for (package, dependencies) in packages {
        let Some(allowed) = expected.get(package.as_str()) else {
            found.push(format!("{package}: a crate that the table does not know"));
            continue;
        };
        let ours = |kind: Kind| -> BTreeSet<String> {
            let ours =
                dependencies.iter().filter(|(name, of)| *of == kind && expected.contains_key(name.as_str()));
            ours.map(|(name, _)| name.clone()).collect()
        };
        if ours(Kind::Normal) != *allowed {
            found.push(format!("{package} uses {:?}, the table says {allowed:?}", ours(Kind::Normal)));
        }
        for name in ours(Kind::Dev).difference(allowed) {
            if name != "testkit" {
                found.push(format!("{package} uses {name} in its tests"));
            }
        }
    }
    report("the table of dependencies in docs/architecture.md and tests/tidy.rs", found);
}

#[test]
fn pure_crates_have_no_runtime_and_the_rim_stays_at_the_rim() {
    let mut found = Vec::new();
    for (package, dependencies) in dependencies() {
        for (name, kind) in dependencies {
            let runtime = PURE.contains(&package.as_str()) && RUNTIME.contains(&name.as_str());
            let rim = !["portcullis", "bench", "conformance-fixture"].contains(&package.as_str())
                && RIM.contains(&name.as_str());
            let wire_format = package == "admission" && name == "serde";
            if runtime || (rim && kind == Kind::Normal) || wire_format {
                found.push(format!("{package} -> {name}"));
            }
        }
    }
    report("dependencies that this crate must not have", found);
}

// ---------------------------------------------------------------- rules about documents

#[test]
fn every_decision_is_in_the_index() {
    let index = read("docs/adr/README.md");
    let missing = files().into_iter().filter(|path| {
        let name = path.strip_prefix("docs/adr/").unwrap_or_default();
        name.starts_with(|first: char| first.is_ascii_digit()) && !index.contains(&format!("({name})"))
    });
    report("link it in docs/adr/README.md", missing);
}

#[test]
fn every_dependency_has_its_sentence() {
    let table = read("docs/adr/0014-dependencies.md");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let explained: BTreeSet<_> =
        rows.flat_map(|cell| cell.split(['`', ' '])).filter(|name| !name.is_empty()).collect();
    let all: BTreeSet<_> = dependencies().into_iter().flat_map(|(_, of)| of).map(|(name, _)| name).collect();
    let theirs =
        all.iter().map(String::as_str).filter(|name| !DIRECTIONS.iter().any(|(ours, _)| ours == name));
    let theirs: BTreeSet<_> = theirs.collect();
    let missing = theirs.difference(&explained).map(|name| format!("{name} has no row"));
    let stale = explained.difference(&theirs).map(|name| format!("{name} is no longer used"));
    report("docs/adr/0014-dependencies.md and the manifests", missing.chain(stale));
}

#[test]
fn metrics_and_their_documents_agree() {
    let code: BTreeSet<_> = sources()
        .iter()
        .filter(|source| source.path.starts_with("crates/gateway/telemetry") && !source.is_tests())
        .flat_map(|source| metric_names(source.production()))
        .collect();
    assert!(!code.is_empty(), "crates/gateway/telemetry.rs writes every metric name out in full");
    let described: BTreeSet<_> = metric_names(&read("docs/operations.md")).collect();
    let mut found: Vec<_> =
        code.difference(&described).map(|name| format!("{name} is not in docs/operations.md")).collect();
    for path in
        files().iter().filter(|path| path.as_str() == "docs/operations.md" || path.starts_with("deploy/"))
    {
        for name in metric_names(&read(path)) {
            let base =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
            if !code.contains(&name) && !code.contains(base) {
                found.push(format!("{path} names {name}, which does not exist"));
            }
        }
    }
    report("metric names", found);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut found = Vec::new();
    for path in files().into_iter().filter(|path| path.ends_with(".md")) {
        for target in links(&read(&path)) {
            let (file, heading) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let here = Path::new(&path).parent().unwrap_or(Path::new(""));
            let file = if file.is_empty() { root().join(&path) } else { root().join(here).join(file) };
            let heading_exists = || {
                heading.is_empty()
                    || fs::read_to_string(&file).is_ok_and(|text| headings(&text).contains(heading))
            };
            if !file.exists() || !heading_exists() {
                found.push(format!("{path}: {target}"));
            }
        }
    }
    report("links that lead nowhere", found);
}

#[test]
fn the_code_map_names_every_module() {
    let map = read("docs/architecture.md");
    let named: BTreeSet<_> = backticked(&map).filter(|word| word.ends_with(".rs")).collect();
    let files = files();
    let mut found: Vec<_> = named
        .iter()
        .filter(|word| {
            word.contains('/')
                && !files.iter().any(|path| path.ends_with(&format!("/{word}")) || path == *word)
        })
        .map(|word| format!("{word} is in the map and does not exist"))
        .collect();
    for path in files.iter().filter(|path| path.starts_with("crates/") && path.ends_with(".rs")) {
        let inner = path.strip_prefix("crates/").unwrap_or(path);
        let top = inner.split('/').count() == 2 && !inner.ends_with("/lib.rs");
        if top && !inner.starts_with("testkit/") && !is_test_file(path) && !named.contains(inner) {
            found.push(format!("`{inner}` is not in the map"));
        }
    }
    report("the code map of docs/architecture.md", found);
}

#[test]
fn the_project_speaks_of_itself_alone() {
    let places =
        [concat!("/wo", "rk/"), concat!("../sha", "red"), concat!("`sha", "red/"), concat!("\"sha", "red/")];
    let mut found = Vec::new();
    for path in files() {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (index, line) in text.lines().enumerate() {
            let place = places.iter().any(|place| stands_alone(line, place));
            // `owner/name#7` says whose; a bare number means nothing to a reader.
            let number = ["issue ", "issue #"].iter().any(|word| {
                line.to_ascii_lowercase()
                    .split(word)
                    .skip(1)
                    .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            });
            if place || (number && !path.starts_with("tests/")) {
                found.push(format!(
                    "{path}:{}: {}",
                    index + 1,
                    line.trim().chars().take(120).collect::<String>()
                ));
            }
        }
    }
    report("paths of one machine and numbers of one tracker mean nothing to a reader", found);
}
