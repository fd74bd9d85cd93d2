//! Steps through JSON text that a frame already proved valid: members, elements, ends of values.
//!
//! On text that is not valid the steps just end; nothing here fails or loops.

use std::ops::Range;

use crate::{
    scan::{Key, short},
    text,
};

/// The members of the object at `span`; none when something else stands there.
pub(crate) fn members(text: &[u8], span: Range<usize>) -> Members<'_> {
    Members { steps: Steps::into(text, span, b'{', None) }
}

/// The elements of the array at `span`; none when something else stands there.
pub(crate) fn elements(text: &[u8], span: Range<usize>) -> Elements<'_> {
    Elements { steps: Steps::into(text, span, b'[', None) }
}

/// Where the value of `key` stands in the object at `span`.
pub(crate) fn member(text: &[u8], span: Range<usize>, key: &str) -> Option<Range<usize>> {
    members(text, span).find(|(name, _)| name.says(key, text)).map(|(_, value)| value)
}

/// Where the containers of a text end: with it, a walk through all levels passes no byte once a level.
pub(crate) struct Ends {
    /// Where each begins and ends, in the order in which they begin.
    list: Vec<(u32, u32)>,
}

impl Ends {
    /// So many bytes, and so at most half as many levels.
    const SHORT: usize = 256;

    /// A short text has no table: it is walked through faster than one is made.
    pub(crate) fn of(text: &[u8]) -> Ends {
        let mut list: Vec<(u32, u32)> = Vec::new();
        if text.len() <= Ends::SHORT {
            return Ends { list };
        }
        let mut open: Vec<usize> = Vec::new();
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            match byte {
                b'"' => {
                    at = string_end(text, at).map_or(text.len(), |(end, _)| end);
                    continue;
                }
                b'{' | b'[' => {
                    open.push(list.len());
                    list.push((short(at), 0));
                }
                b'}' | b']' => {
                    if let Some((_, end)) = open.pop().and_then(|index| list.get_mut(index)) {
                        *end = short(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Ends { list }
    }

    pub(crate) fn members<'a>(&'a self, text: &'a [u8], span: Range<usize>) -> Members<'a> {
        Members { steps: Steps::into(text, span, b'{', Some(self)) }
    }

    pub(crate) fn elements<'a>(&'a self, text: &'a [u8], span: Range<usize>) -> Elements<'a> {
        Elements { steps: Steps::into(text, span, b'[', Some(self)) }
    }

    fn after(&self, from: usize) -> Option<usize> {
        let index = self.list.binary_search_by_key(&short(from), |(begin, _)| *begin).ok()?;
        self.list.get(index).map(|(_, end)| *end as usize)
    }
}

/// Whether the value at `span` begins with `byte`: `{`, `[` or `"`.
pub(crate) fn begins(text: &[u8], span: &Range<usize>, byte: u8) -> bool {
    text.get(span.start) == Some(&byte)
}

pub(crate) struct Members<'a> {
    steps: Steps<'a>,
}

impl Members<'_> {
    /// Whether the closing brace was reached, and nothing but white space follows it.
    pub(crate) fn ends_text(&self) -> bool {
        self.steps.is_complete && space_end(self.steps.text, self.steps.at) == self.steps.text.len()
    }
}

impl Iterator for Members<'_> {
    type Item = (Key, Range<usize>);

    fn next(&mut self) -> Option<(Key, Range<usize>)> {
        let from = self.steps.item()?;
        if self.steps.text.get(from) != Some(&b'"') {
            return None;
        }
        let (end, escaped) = string_end(self.steps.text, from)?;
        let colon = space_end(self.steps.text, end);
        if self.steps.text.get(colon) != Some(&b':') {
            return None;
        }
        let value = self.steps.value(space_end(self.steps.text, colon + 1))?;
        Some((Key::new(from + 1..end - 1, escaped), value))
    }
}

pub(crate) struct Elements<'a> {
    steps: Steps<'a>,
}

impl Iterator for Elements<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let from = self.steps.item()?;
        self.steps.value(from)
    }
}

struct Steps<'a> {
    text: &'a [u8],
    at: usize,
    open: u8,
    ends: Option<&'a Ends>,
    is_first: bool,
    is_over: bool,
    is_complete: bool,
}

impl<'a> Steps<'a> {
    fn into(text: &'a [u8], span: Range<usize>, open: u8, ends: Option<&'a Ends>) -> Steps<'a> {
        let at = space_end(text, span.start);
        let is_over = text.get(at) != Some(&open);
        Steps { text, at: at + 1, open, ends, is_first: true, is_over, is_complete: false }
    }

    /// Where the next item begins.
    fn item(&mut self) -> Option<usize> {
        if self.is_over {
            return None;
        }
        // Taken back when a whole value has been read.
        self.is_over = true;
        let at = space_end(self.text, self.at);
        let byte = *self.text.get(at)?;
        // Each closing bracket stands two places behind its opening one in ASCII.
        if byte == self.open + 2 {
            self.is_complete = true;
            self.at = at + 1;
            return None;
        }
        if self.is_first {
            self.is_first = false;
            return Some(at);
        }
        (byte == b',').then(|| space_end(self.text, at + 1))
    }

    fn value(&mut self, from: usize) -> Option<Range<usize>> {
        // Only containers have an entry.
        let ends = self.ends.filter(|_| matches!(self.text.get(from), Some(b'{' | b'[')));
        let known = ends.and_then(|ends| ends.after(from));
        let to = known.or_else(|| value_end(self.text, from))?;
        self.at = to;
        self.is_over = false;
        Some(from..to)
    }
}

/// Where the value that begins at `from` ends.
pub(crate) fn value_end(text: &[u8], from: usize) -> Option<usize> {
    match text.get(from)? {
        b'"' => string_end(text, from).map(|(end, _)| end),
        b'{' | b'[' => container_end(text, from),
        _ => {
            let rest = text.get(from..)?;
            let length = rest
                .iter()
                .position(|byte| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r'));
            let length = length.unwrap_or(rest.len());
            (length > 0).then_some(from + length)
        }
    }
}

/// Where the string whose quote stands at `from` ends, and whether it holds an escape.
pub(crate) fn string_end(text: &[u8], from: usize) -> Option<(usize, bool)> {
    let (mut at, mut escaped) = (from + 1, false);
    loop {
        let rest = text.get(at..)?;
        at += text::early_end(rest).or_else(|| memchr::memchr2(b'"', b'\\', rest))?;
        match text.get(at)? {
            b'"' => return Some((at + 1, escaped)),
            b'\\' => {
                escaped = true;
                at += 2;
            }
            // A control character, on text that is not valid.
            _ => at += 1,
        }
    }
}

fn container_end(text: &[u8], from: usize) -> Option<usize> {
    let (mut at, mut depth) = (from, 0_usize);
    loop {
        match text.get(at)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => {
                (at, _) = string_end(text, at)?;
                continue;
            }
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

#[inline]
pub(crate) fn space_end(text: &[u8], from: usize) -> usize {
    // Most text has no white space.
    if text.get(from).is_some_and(|byte| *byte > b' ') { from } else { long_space_end(text, from) }
}

fn long_space_end(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

#[cfg(test)]
mod tests;
