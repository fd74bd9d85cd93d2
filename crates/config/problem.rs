//! Problems: what is wrong, where, and what to do about it.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::tree::Span;

/// The most of one line that an excerpt shows, in bytes.
const EXCERPT_BYTES: usize = 160;

/// One thing that is wrong in a file.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Whether the configuration can run all the same.
    pub severity: Severity,
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Where in the document: `upstreams.github.tools`; empty for the document itself.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    excerpt: Option<Excerpt>,
}

/// How grave a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot run.
    Error,
    /// The operator should know.
    Warning,
}

/// A piece of one line with a marked range.
#[derive(Clone, Debug)]
struct Excerpt {
    text: String,
    marked: Range<usize>,
}

/// One file as it was read.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    /// The place of a part of a scalar; the whole scalar when escapes or folds hide where it is.
    pub(crate) fn inside(&self, span: Span, text: &str, at: usize, len: usize) -> Span {
        let raw = self.text.get(span.start..).unwrap_or_default();
        let quote = usize::from(raw.starts_with(['"', '\'']));
        let same = raw.get(quote..).is_some_and(|raw| raw.starts_with(text));
        let before = text.get(..at).filter(|before| same && !before.contains('\n'));
        match before {
            Some(before) => {
                let start = span.start + quote + at;
                Span { start, end: start + len, column: span.column + quote + before.chars().count(), ..span }
            }
            None => span,
        }
    }
}

/// A place in one file, kept by values that are checked later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) source: Rc<Source>,
    pub(crate) span: Span,
    pub(crate) path: String,
}

impl Place {
    /// The beginning of a file.
    pub(crate) fn top(source: &Rc<Source>) -> Place {
        Place { source: Rc::clone(source), span: Span::top(), path: String::new() }
    }

    /// The place of a part of the text that stands there.
    pub(crate) fn inside(&self, text: &str, at: usize, len: usize) -> Place {
        Place { span: self.source.inside(self.span, text, at, len), ..self.clone() }
    }

    /// What is written there, without quotes: fit to be shown, unlike a value with references replaced.
    pub(crate) fn written(&self) -> &str {
        let Span { start, end, .. } = self.span;
        self.source.text.get(start..end).unwrap_or_default().trim().trim_matches(['"', '\''])
    }
}

impl Problem {
    /// A problem that stops the start.
    pub(crate) fn error(place: &Place, message: impl Into<String>) -> Problem {
        let Place { source, span, path } = place;
        Problem {
            severity: Severity::Error,
            file: source.path.clone(),
            line: span.line.max(1),
            column: span.column.max(1),
            path: path.clone(),
            message: message.into(),
            hint: None,
            excerpt: Excerpt::of(&source.text, *span),
        }
    }

    /// Something the operator should know.
    pub(crate) fn warning(place: &Place, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(place, message) }
    }

    /// The same problem, of another severity.
    pub(crate) fn graded(self, severity: Severity) -> Problem {
        Problem { severity, ..self }
    }

    /// A problem of a file that could not be read.
    pub(crate) fn unreadable(file: PathBuf, message: String) -> Problem {
        let source = Rc::new(Source { path: file, text: String::new() });
        Problem::error(&Place::top(&source), message)
    }

    /// The same problem with advice.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }
}

impl Excerpt {
    fn of(text: &str, span: Span) -> Option<Excerpt> {
        let start = span.start.min(text.len());
        let (before, after) = (text.get(..start)?, text.get(start..)?);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_end = start + after.find(['\n', '\r']).unwrap_or(after.len());
        // A long line is cut around its mark.
        let from = floor(text, line_start.max(start.saturating_sub(EXCERPT_BYTES / 2)));
        let to = floor(text, line_end.min(from + EXCERPT_BYTES)).max(start);
        let shown = text.get(from..to)?.replace('\t', " ");
        if shown.trim().is_empty() {
            return None;
        }
        let end = floor(text, span.end.clamp(start, to)).max(start);
        Some(Excerpt { text: shown, marked: start - from..end - from })
    }
}

/// The nearest character boundary at or before a byte.
fn floor(text: &str, mut at: usize) -> usize {
    while at > 0 && !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Renders problems for a terminal or a log, each beginning with `file:line:column: `.
pub fn render(problems: &[Problem]) -> String {
    let renderer = Renderer::plain();
    let mut text = String::new();
    for problem in problems {
        let Problem { severity, file, line, column, path, message, hint, excerpt } = problem;
        let word = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = write!(text, "{}:{line}:{column}: {word}: {message}", file.display());
        if !path.is_empty() {
            let _ = write!(text, " (at `{path}`)");
        }
        text.push('\n');
        if let Some(Excerpt { text: shown, marked }) = excerpt {
            let mark = AnnotationKind::Primary.span(marked.clone());
            let snippet = Snippet::source(shown.as_str()).line_start(*line).annotation(mark);
            let group = Group::with_level(Level::ERROR).element(snippet);
            text.push_str(&renderer.render(&[group]));
            text.push('\n');
        }
        if let Some(hint) = hint {
            let _ = writeln!(text, "  hint: {hint}");
        }
        text.push('\n');
    }
    text
}
