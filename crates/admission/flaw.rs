//! What is wrong with a rule, for whoever can say in which file it stands.

/// One thing that is wrong with a rule. The message goes on after the text it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What is wrong.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where in the text it goes wrong: the byte and so many bytes from there.
    pub at: Option<(usize, usize)>,
}

impl Flaw {
    pub(crate) fn new(why: impl Into<String>) -> Flaw {
        Flaw { why: why.into(), hint: None, at: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Flaw {
        Flaw { hint: Some(hint.into()), ..self }
    }

    /// At the first place where this word stands alone.
    pub(crate) fn at_word(self, source: &str, word: &str) -> Flaw {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let alone = |(at, _): &(usize, &str)| {
            let before = source.get(..*at).and_then(|text| text.chars().next_back());
            let after = source.get(at + word.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        };
        let at = source.match_indices(word).find(alone).map(|(at, word)| (at, word.len()));
        Flaw { at: at.or(self.at), ..self }
    }

    /// What the parser says.
    pub(crate) fn syntax(source: &str, error: &cel::ParseError) -> Flaw {
        let (line, column) = error.pos;
        let before = |line: usize| source.split_inclusive('\n').take(line).map(str::len).sum::<usize>();
        let place = usize::try_from(line - 1).ok().zip(usize::try_from(column - 1).ok());
        let at = place.and_then(|(line, column)| {
            let from = before(line);
            let rest = source.get(from..)?;
            let (at, _) = rest.char_indices().nth(column)?;
            Some((from + at, 1))
        });
        let message = error.msg.lines().next().unwrap_or_default().trim_end_matches('.');
        Flaw { why: format!("is no valid expression: {message}"), hint: None, at }
    }
}
