//! The tree as the house rules see it: files, Rust text without comments and literals, manifests, links.

use std::{collections::BTreeSet, env, fs, path::PathBuf, process::Command};

pub(super) struct Source {
    /// From the root, with forward slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// The text with comments and the insides of literals blanked, line by line the same.
    pub(super) code: String,
}

impl Source {
    /// Where the tests at the foot begin, as a line number; 0 for a file of tests.
    fn tests_from(&self) -> usize {
        if self.is_tests() {
            return 0;
        }
        let mut lines = self.code.lines().enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            let next = lines.peek().map(|(_, next)| *next).unwrap_or_default();
            if line == "#[cfg(test)]" && next.starts_with("mod tests") {
                return index;
            }
        }
        usize::MAX
    }

    pub(super) fn is_tests(&self) -> bool {
        self.path.starts_with("tests/") || is_test_file(&self.path)
    }

    pub(super) fn production(&self) -> &str {
        if self.tests_from() == 0 { &self.text } else { head(&self.text, self.tests_from()) }
    }

    pub(super) fn production_code(&self) -> &str {
        head(&self.code, self.tests_from())
    }

    pub(super) fn tests(&self) -> &str {
        self.code.strip_prefix(self.production_code()).unwrap_or_default()
    }
}

/// A file of tests or measurements beside the code: declared under `#[cfg(test)]`, or a program of its own under
/// `[[test]]` in the manifest.
pub(super) fn is_test_file(path: &str) -> bool {
    let inside = path.trim_end_matches(".rs");
    let (folder, name) = inside.rsplit_once('/').unwrap_or(("", inside));
    let declared = format!("#[cfg(test)]\nmod {name};");
    let parents = [format!("{folder}/lib.rs"), format!("{folder}/main.rs"), format!("{folder}.rs")];
    let said = inside.split('/').any(|part| part == "tests" || part == "examples");
    let program = format!("[[test]]\nname = \"{name}\"\n");
    path.starts_with("crates/")
        && (said
            || parents.iter().any(|parent| read(parent).contains(&declared))
            || read(&format!("{folder}/Cargo.toml")).contains(&program))
}

pub(super) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

/// Every file of the project, from the root, sorted. What `.gitignore` names is not of the project.
pub(super) fn files() -> Vec<String> {
    let ignored = read(".gitignore");
    let mut skip: BTreeSet<_> = ignored.lines().map(|line| line.trim_matches('/')).collect();
    skip.extend([".git", "target", "node_modules", "Cargo.lock"]);
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if skip.contains(entry.file_name().to_string_lossy().as_ref()) {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() => {
                    let inside = path.strip_prefix(root()).unwrap_or(&path);
                    found.push(inside.to_string_lossy().replace('\\', "/"));
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

pub(super) fn sources() -> Vec<Source> {
    let paths = files().into_iter().filter(|path| path.ends_with(".rs"));
    paths
        .map(|path| {
            let text = read(&path);
            Source { code: blanked(&text), path, text }
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Normal,
    Dev,
}

/// Direct dependencies of each crate of the workspace, as Cargo understands the manifests.
pub(super) fn dependencies() -> Vec<(String, Vec<(String, Kind)>)> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let metadata: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let list = |value: &serde_json::Value, key: &str| {
        value.get(key).and_then(|v| v.as_array().cloned()).unwrap_or_default()
    };
    let name =
        |value: &serde_json::Value| value.get("name").and_then(|n| n.as_str()).unwrap_or_default().to_owned();
    list(&metadata, "packages")
        .iter()
        .map(|package| {
            let of = list(package, "dependencies").into_iter().map(|dependency| {
                let dev = dependency.get("kind").and_then(|kind| kind.as_str()) == Some("dev");
                (name(&dependency), if dev { Kind::Dev } else { Kind::Normal })
            });
            (name(package), of.collect())
        })
        .collect()
}

// ---------------------------------------------------------------- reading text

pub(super) fn report(rule: &str, found: impl IntoIterator<Item = String>) {
    let found: Vec<_> = found.into_iter().collect();
    assert!(found.is_empty(), "\n{rule}:\n  {}\n", found.join("\n  "));
}

/// The first `lines` lines.
fn head(text: &str, lines: usize) -> &str {
    let length = text.split_inclusive('\n').take(lines).map(str::len).sum();
    text.get(..length).unwrap_or(text)
}

/// `path:line: word` wherever one of `words` stands as a whole word.
pub(super) fn uses<'a>(
    sources: &'a [Source],
    part: impl Fn(&'a Source) -> &'a str,
    words: &[&str],
) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let text = part(source);
        let before = source.text.lines().count().saturating_sub(text.lines().count());
        for (index, line) in text.lines().enumerate() {
            for word in words.iter().filter(|word| stands_alone(line, word)) {
                found.push(format!("{}:{}: {word}", source.path, before + index + 1));
            }
        }
    }
    found
}

/// Is `word` in `line` with no letter, digit or underscore touching its ends?
pub(super) fn stands_alone(line: &str, word: &str) -> bool {
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let closed = word.ends_with(|c: char| c.is_alphanumeric());
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        !(letter(before) || closed && letter(after))
    })
}

pub(super) fn metric_names(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let process = ["process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"];
    let ours = |word: &str| word.starts_with("portcullis_") && !word.ends_with('_');
    words.filter(move |word| ours(word) || process.contains(word)).map(str::to_owned)
}

pub(super) fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Targets of links to files of the project, outside code.
pub(super) fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (index, part) in text.split("```").enumerate() {
        if index % 2 == 1 {
            continue;
        }
        for rest in part.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") && !target.is_empty() {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// The anchors of a document, spelled as the usual renderers spell them.
pub(super) fn headings(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines
        .map(|line| {
            let kept = line.trim_start_matches('#').trim().to_lowercase();
            let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Lines of multi-line constants: a table is not code to follow.
pub(super) fn table_lines(text: &str) -> usize {
    let (mut count, mut inside) = (0, false);
    for line in text.lines() {
        let words = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        let begins =
            words.starts_with("const ") && !words.starts_with("const fn ") || words.starts_with("static ");
        inside |= begins && !line.trim_end().ends_with(';');
        count += usize::from(inside);
        inside &= !(line.starts_with([']', '}', ')']) && line.trim_end().ends_with(';'));
    }
    count
}

pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// Functions of blanked code with the number of lines of code in their bodies.
pub(super) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code.get(..at).unwrap_or_default();
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = code.get(at + 3..).unwrap_or_default();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(body) = body(rest).filter(|_| !name.is_empty()) else { continue };
        let lines = body.lines().filter(|line| !line.trim().is_empty()).count();
        found.push(Function { name, line: before.matches('\n').count() + 1, lines });
    }
    found
}

/// What stands between the braces of the function whose signature `rest` begins with.
fn body(rest: &str) -> Option<&str> {
    let (mut nesting, mut braces, mut start) = (0_i32, 0_i32, 0);
    for (index, c) in rest.char_indices() {
        match c {
            '(' | '[' if braces == 0 => nesting += 1,
            ')' | ']' if braces == 0 => nesting -= 1,
            ';' if braces == 0 && nesting == 0 => return None,
            '{' => {
                braces += 1;
                if braces == 1 {
                    start = index + 1;
                }
            }
            '}' if braces == 1 => return rest.get(start..index),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

/// Comments become spaces and the insides of literals the letter `s`; lines stay where they are.
pub(super) fn blanked(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut out = String::with_capacity(text.len());
    let mut index = 0;
    while index < chars.len() {
        let word = index > 0 && (at(index - 1).is_alphanumeric() || at(index - 1) == '_');
        let (end, filler) = match at(index) {
            '/' if at(index + 1) == '/' => (end_of_line(&at, index), ' '),
            '/' if at(index + 1) == '*' => (end_of_comment(&at, index, chars.len()), ' '),
            '"' => (end_of_text(&at, index + 1, chars.len()), 's'),
            'r' if !word || at(index - 1) == 'b' => match hashes(&at, index + 1) {
                Some(hashes) => (end_of_raw_text(&at, index + 1 + hashes, hashes, chars.len()), 's'),
                None => (index + 1, 'r'),
            },
            '\'' if at(index + 1) == '\\' => (end_of_character(&at, index + 2), 's'),
            '\'' if at(index + 2) == '\'' => (index + 3, 's'),
            other => (index + 1, other),
        };
        let replaced = chars.get(index..end).unwrap_or_default();
        out.extend(replaced.iter().map(|c| if *c == '\n' { '\n' } else { filler }));
        index = end.max(index + 1);
    }
    out
}

fn end_of_line(at: &impl Fn(usize) -> char, mut index: usize) -> usize {
    while !['\n', '\0'].contains(&at(index)) {
        index += 1;
    }
    index
}

fn end_of_comment(at: &impl Fn(usize) -> char, mut index: usize, length: usize) -> usize {
    let mut depth = 0;
    while index < length {
        match (at(index), at(index + 1)) {
            ('/', '*') => (depth, index) = (depth + 1, index + 2),
            ('*', '/') => (depth, index) = (depth - 1, index + 2),
            _ => index += 1,
        }
        if depth == 0 {
            break;
        }
    }
    index.min(length)
}

fn end_of_text(at: &impl Fn(usize) -> char, mut index: usize, length: usize) -> usize {
    while index < length && at(index) != '"' {
        index += if at(index) == '\\' { 2 } else { 1 };
    }
    (index + 1).min(length)
}

/// How many `#` stand before the quote of a raw string; none if this is no raw string.
fn hashes(at: &impl Fn(usize) -> char, index: usize) -> Option<usize> {
    let count = (0..).take_while(|offset| at(index + offset) == '#').count();
    (at(index + count) == '"').then_some(count)
}

fn end_of_raw_text(at: &impl Fn(usize) -> char, quote: usize, hashes: usize, length: usize) -> usize {
    let closes = |index: usize| at(index) == '"' && (1..=hashes).all(|offset| at(index + offset) == '#');
    (quote + 1..length).find(|index| closes(*index)).map_or(length, |index| index + 1 + hashes)
}

fn end_of_character(at: &impl Fn(usize) -> char, mut index: usize) -> usize {
    index += 1;
    while !['\'', '\n', '\0'].contains(&at(index)) {
        index += 1;
    }
    index + 1
}

#[test]
fn the_scanner_sees_through_comments_and_literals() {
    let code = blanked(
        "fn a<'x>() { let t = \"} unsafe \\\" {\"; let c = '{'; let e = '\\''; // }\n /* { /* } */ */ }\nfn b() -> [u8; 2] {\n\n x(r#\"}\n\"{\"#)\n}\nfn c();\n",
    );
    let found: Vec<_> = functions(&code).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
    assert_eq!(found, [("a".to_owned(), 1, 1), ("b".to_owned(), 3, 2)]);
    assert!(!code.contains("unsafe"));
    assert_eq!(code.lines().count(), 8);
}
