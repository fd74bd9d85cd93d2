//! Arguments that headers repeat: the `x-mcp-header` annotations of an input schema (spec H-30 to H-32).

use std::{
    borrow::Cow,
    collections::{HashSet, VecDeque},
    ops::Range,
};

use crate::{
    digest::number,
    headers::{self, HeaderError, PARAM_PREFIX, Sent},
    scan::{self, Budget, Key},
    text,
    walk::{self, Ends},
};

/// One argument that a header repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The header's name, in lower case and without [`PARAM_PREFIX`].
    pub header: Box<str>,
    /// The keys that lead from the arguments to the value.
    pub path: Box<[Box<str>]>,
}

const ANNOTATION: &str = "x-mcp-header";
/// MCP sets no limits, but those who read headers do, and no tool may cost us much more than its own size.
const MOST_HEADERS: usize = 64;
const LONGEST_HEADER: usize = 128;
const LONGEST_PATH: usize = 1024;

/// The annotations of a tool, as its upstream wrote it. An error says why the tool has to be dropped (spec
/// H-31): to leave out only the annotation would let calls through whose headers nobody checks.
pub fn mirrors(tool: &str) -> Result<Vec<Mirror>, &'static str> {
    let bytes = tool.as_bytes();
    // Few tools have any, and a search is cheaper than a walk. A key may be written with escapes.
    let may_have = |word: &str| memchr::memmem::find(bytes, word.as_bytes()).is_some();
    if !may_have(ANNOTATION) && !may_have("\\u") {
        return Ok(Vec::new());
    }
    let Some(schema) = walk::member(bytes, 0..bytes.len(), "inputSchema") else { return Ok(Vec::new()) };
    let ends = Ends::of(bytes);
    let waiting = VecDeque::from([Subschema { span: schema, place: Some(Place::ARGUMENTS) }]);
    let mut search = Search { text: bytes, ends: &ends, waiting, places: Vec::new(), found: Vec::new() };
    while let Some(subschema) = search.waiting.pop_front() {
        search.look_at(subschema)?;
    }
    let mut headers = HashSet::new();
    if !search.found.iter().all(|mirror| headers.insert(&mirror.header)) {
        return Err("two x-mcp-header of one name");
    }
    Ok(search.found)
}

/// The headers for an upstream: names as [`Mirror::header`] has them, and encoded values. An argument that is
/// null, absent or no primitive has none.
pub fn mirrored(mirrors: &[Mirror], arguments: Option<&str>) -> Vec<(Box<str>, String)> {
    let value_of = |mirror: &Mirror| {
        let value = match argument(mirror, arguments)? {
            Primitive::Text(text) => headers::encode(&text).into_owned(),
            Primitive::Number(raw) => decimal(raw).into_owned(),
            Primitive::Bool(raw) => raw.to_owned(),
        };
        Some((mirror.header.clone(), value))
    };
    mirrors.iter().filter_map(value_of).collect()
}

/// The headers against the arguments: each repeated argument needs its header, and no other annotated one may
/// have one. Numbers are equal by value. Headers that no annotation names are not looked at.
pub fn check_mirrors(
    mirrors: &[Mirror],
    arguments: Option<&str>,
    sent: &Sent<'_>,
) -> Result<(), HeaderError> {
    for mirror in mirrors {
        let header = || Cow::Owned([PARAM_PREFIX, &mirror.header].concat());
        let mut values = sent.params.iter().filter(|(name, _)| *name == mirror.header);
        let value = values.next();
        if values.next().is_some() {
            return Err(HeaderError::Repeated { header: header() });
        }
        match (argument(mirror, arguments), value) {
            (None, None) => {}
            (Some(_), None) => return Err(HeaderError::Missing { header: header() }),
            (Some(argument), Some((_, value))) if argument.is(&headers::decode(value)?) => {}
            (_, Some(_)) => return Err(HeaderError::Differs { header: header() }),
        }
    }
    Ok(())
}

/// An argument that a header can repeat.
enum Primitive<'a> {
    Text(Cow<'a, str>),
    /// Its JSON text.
    Number(&'a str),
    /// `true` or `false`.
    Bool(&'a str),
}

impl Primitive<'_> {
    fn is(&self, sent: &str) -> bool {
        match self {
            Primitive::Text(text) => text == sent,
            Primitive::Number(raw) => is_number(sent) && canonical(raw) == canonical(sent),
            Primitive::Bool(raw) => *raw == sent,
        }
    }
}

fn argument<'a>(mirror: &Mirror, arguments: Option<&'a str>) -> Option<Primitive<'a>> {
    let arguments = arguments?;
    let mut span = 0..arguments.len();
    for key in &mirror.path {
        span = walk::member(arguments.as_bytes(), span, key)?;
    }
    let raw = arguments.get(span)?;
    match raw.as_bytes().first()? {
        b'"' => text::string(raw.as_bytes()).map(Primitive::Text),
        b'-' | b'0'..=b'9' => Some(Primitive::Number(raw)),
        b't' | b'f' => Some(Primitive::Bool(raw)),
        _ => None,
    }
}

/// A number as decimal digits where it is an integer that can be written so, else as it came.
fn decimal(raw: &str) -> Cow<'_, str> {
    let canonical = canonical(raw);
    let is_plain = canonical.bytes().all(|byte| matches!(byte, b'-' | b'0'..=b'9'));
    // Digits beyond those that the canonical form writes out stay as they came.
    if is_plain { canonical.into() } else { raw.into() }
}

fn canonical(raw: &str) -> String {
    let mut out = String::new();
    number::write_canonical(raw, &mut out);
    out
}

fn is_number(text: &str) -> bool {
    let budget = Budget { bytes: text.len(), depth: 0, nodes: 1 };
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && text.ends_with(|last: char| last.is_ascii_digit())
        && scan::scan(text.as_bytes(), &budget).is_ok()
}

/// Goes through a schema level by level. What waits lies on the heap, so that no depth exhausts the stack.
struct Search<'a> {
    text: &'a [u8],
    ends: &'a Ends,
    waiting: VecDeque<Subschema>,
    /// The properties that `properties` alone lead to: a key, and the place around it.
    places: Vec<(Key, Place)>,
    found: Vec<Mirror>,
}

struct Subschema {
    span: Range<usize>,
    /// Where its argument stands; `None` when `properties` alone do not lead there.
    place: Option<Place>,
}

/// A number into the places of a search, from 1.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place(usize);

impl Place {
    /// That of all arguments together.
    const ARGUMENTS: Place = Place(0);
}

/// What stands behind a keyword of JSON Schema.
enum Holds {
    /// The annotation.
    Annotation,
    /// Subschemas by the name of their property.
    Properties,
    /// Subschemas by other names.
    Named,
    /// Values that are no schemas.
    Values,
    /// A subschema, or some in an array. Also behind words that we do not know: better a tool too few.
    Subschemas,
}

impl Holds {
    fn behind(keyword: &str) -> Holds {
        match keyword {
            ANNOTATION => Holds::Annotation,
            "properties" => Holds::Properties,
            "$defs" | "definitions" | "patternProperties" | "dependentSchemas" | "dependencies" => {
                Holds::Named
            }
            "default" | "const" | "enum" | "examples" | "required" | "dependentRequired" => Holds::Values,
            _ => Holds::Subschemas,
        }
    }
}

impl Search<'_> {
    fn look_at(&mut self, subschema: Subschema) -> Result<(), &'static str> {
        let Subschema { span, place } = subschema;
        for (keyword, value) in self.ends.members(self.text, span.clone()) {
            match Holds::behind(&keyword.text(self.text)) {
                Holds::Annotation => self.note(&span, value, place)?,
                Holds::Properties => {
                    for (name, span) in self.ends.members(self.text, value) {
                        let place = place.map(|around| {
                            self.places.push((name, around));
                            Place(self.places.len())
                        });
                        self.waiting.push_back(Subschema { span, place });
                    }
                }
                Holds::Named => {
                    let named = self.ends.members(self.text, value).map(|(_, span)| span);
                    self.waiting.extend(named.map(|span| Subschema { span, place: None }));
                }
                Holds::Values => {}
                Holds::Subschemas => self.wait_for_all_in(value),
            }
        }
        Ok(())
    }

    /// Any object at `span`, or in an array there, may be a schema.
    fn wait_for_all_in(&mut self, span: Range<usize>) {
        let mut arrays = vec![span];
        while let Some(span) = arrays.pop() {
            match self.text.get(span.start) {
                Some(b'[') => arrays.extend(self.ends.elements(self.text, span)),
                Some(b'{') => self.waiting.push_back(Subschema { span, place: None }),
                _ => {}
            }
        }
    }

    fn note(
        &mut self,
        schema: &Range<usize>,
        annotation: Range<usize>,
        place: Option<Place>,
    ) -> Result<(), &'static str> {
        let string = |span: Range<usize>| self.text.get(span).and_then(text::string);
        let Some(place) = place.filter(|place| *place != Place::ARGUMENTS) else {
            return Err("an x-mcp-header that properties alone do not lead to");
        };
        let Some(header) = string(annotation) else { return Err("an x-mcp-header that is no string") };
        if header.is_empty() {
            return Err("an empty x-mcp-header");
        }
        if !header.bytes().all(is_token) {
            return Err("an x-mcp-header that is no token");
        }
        let of = self.ends.members(self.text, schema.clone()).find(|(key, _)| key.says("type", self.text));
        match of.and_then(|(_, span)| string(span)).as_deref() {
            Some("string" | "integer" | "boolean") => {}
            Some("number") => return Err("an x-mcp-header on a number"),
            _ => return Err("an x-mcp-header on what is no primitive"),
        }
        if header.len() > LONGEST_HEADER {
            return Err("an x-mcp-header that is too long");
        }
        if self.found.len() >= MOST_HEADERS {
            return Err("too many x-mcp-header");
        }
        let path = self.path(place).ok_or("an x-mcp-header too far down")?;
        self.found.push(Mirror { header: header.to_ascii_lowercase().into(), path });
        Ok(())
    }

    /// The keys that lead to a place; `None` when they are absurdly long.
    fn path(&self, place: Place) -> Option<Box<[Box<str>]>> {
        let mut path = Vec::new();
        let mut size = 0;
        let mut next = place;
        while let Some((key, around)) = next.0.checked_sub(1).and_then(|index| self.places.get(index)) {
            let key = key.text(self.text);
            size += key.len() + 1;
            if size > LONGEST_PATH {
                return None;
            }
            path.push(key.into());
            next = *around;
        }
        path.reverse();
        Some(path.into())
    }
}

/// A `tchar` of RFC 9110.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
