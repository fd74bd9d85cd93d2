//! Filters: which names of an upstream are visible, decided on the whole native name.

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, Look};

/// The longest pattern, in bytes.
const PATTERN_BYTES: usize = 4096;
/// The most memory one compiled pattern may take, in bytes.
const COMPILED_BYTES: usize = 1 << 20;

/// Which names are visible. Deny wins; without an include everything else is visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    admit: Vec<Pattern>,
    deny: Vec<Pattern>,
}

impl Filter {
    /// Puts compiled patterns together.
    pub fn new(admit: Vec<Pattern>, deny: Vec<Pattern>) -> Filter {
        Filter { admit, deny }
    }

    /// Whether the item of this native name is visible (bug B25: whole name, case-sensitive).
    pub fn admits(&self, native: &str) -> bool {
        let denied = self.deny.iter().any(|pattern| pattern.matches(native));
        !denied && (self.admit.is_empty() || self.admit.iter().any(|pattern| pattern.matches(native)))
    }

    /// Every pattern, to tell the operator which of them match nothing.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.admit.iter().chain(&self.deny)
    }

    /// Whether everything is visible.
    pub fn is_open(&self) -> bool {
        self.admit.is_empty() && self.deny.is_empty()
    }
}

/// One compiled glob or regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The pattern as written.
    pub text: String,
    /// The line of the file it stands on; 0 when it stands in none.
    pub line: usize,
    regex: Regex,
}

/// Patterns are what is written: where it stands makes no difference.
impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        // A glob and an expression may read alike; what they are compiled to does not.
        self.text == other.text && self.regex.as_str() == other.regex.as_str()
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Compiles a glob: `*` is any text, also across `/`, `?` is one character, all else is itself.
    pub fn glob(text: &str) -> Result<Pattern, PatternError> {
        if let Some((at, why)) = foreign_syntax(text) {
            return Err(PatternError { at: Some(at), why: why.to_owned() });
        }
        let mut regex = String::from(r"\A");
        for character in text.chars() {
            match character {
                '*' => regex.push_str("(?s:.*)"),
                '?' => regex.push_str("(?s:.)"),
                literal => regex.push_str(&regex_syntax::escape(literal.encode_utf8(&mut [0; 4]))),
            }
        }
        regex.push_str(r"\z");
        Pattern::compile(text, &regex)
    }

    /// Compiles a regular expression that must match the whole name.
    pub fn regex(text: &str) -> Result<Pattern, PatternError> {
        if text.is_empty() {
            return Err(PatternError { at: None, why: "the pattern is empty".to_owned() });
        }
        // Long patterns are refused before they are parsed.
        bounded(text)?;
        // Anchored as a tree and not by pasting text around it: `a)|(b` and a trailing `(?x) # comment`
        // must not be able to escape from the anchors.
        let parsed = regex_syntax::parse(text).map_err(PatternError::from_syntax)?;
        let whole = Hir::concat(vec![Hir::look(Look::Start), parsed, Hir::look(Look::End)]);
        Pattern::compile(text, &whole.to_string())
    }

    /// The expression it is compiled to, anchored at both ends.
    pub fn expression(&self) -> &Regex {
        &self.regex
    }

    /// Whether the whole name matches.
    pub fn matches(&self, native: &str) -> bool {
        self.regex.is_match(native)
    }

    fn compile(text: &str, regex: &str) -> Result<Pattern, PatternError> {
        bounded(text)?;
        let compiled = RegexBuilder::new(regex).size_limit(COMPILED_BYTES).build();
        match compiled {
            Ok(regex) => Ok(Pattern { text: text.to_owned(), line: 0, regex }),
            Err(regex::Error::CompiledTooBig(limit)) => Err(PatternError {
                at: None,
                why: format!("it would need more than {limit} bytes of memory"),
            }),
            Err(other) => Err(PatternError { at: None, why: other.to_string() }),
        }
    }
}

/// Why a pattern does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct PatternError {
    /// The byte of the pattern where it goes wrong, when it is one place.
    pub at: Option<usize>,
    /// What is wrong.
    pub why: String,
}

impl PatternError {
    fn from_syntax(error: regex_syntax::Error) -> PatternError {
        match error {
            regex_syntax::Error::Parse(error) => {
                PatternError { at: Some(error.span().start.offset), why: error.kind().to_string() }
            }
            regex_syntax::Error::Translate(error) => {
                PatternError { at: Some(error.span().start.offset), why: error.kind().to_string() }
            }
            other => PatternError { at: None, why: other.to_string() },
        }
    }
}

fn bounded(text: &str) -> Result<(), PatternError> {
    if text.len() <= PATTERN_BYTES {
        return Ok(());
    }
    Err(PatternError { at: None, why: format!("the pattern is longer than {PATTERN_BYTES} bytes") })
}

/// What looks like the syntax of other glob dialects. Taken literally it would match nothing and
/// leave the operator in the belief that it does (bug B25).
fn foreign_syntax(text: &str) -> Option<(usize, &'static str)> {
    if text.is_empty() {
        return Some((0, "the pattern is empty"));
    }
    if text.starts_with('!') {
        return Some((0, "a glob cannot be negated with `!`"));
    }
    if text.starts_with('^') {
        return Some((0, "`^` belongs to regular expressions, and a glob always matches the whole name"));
    }
    let at = text.find(['[', ']', '\\'])?;
    Some((at, "a glob knows `*` and `?` only"))
}
