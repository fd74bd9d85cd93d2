//! The headers that repeat parts of a modern body: written, read, and compared with it (spec H-28 to H-34).

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    era::Revision,
    frame::{Frame, Shape},
    method::{Form, Method, Names},
};

/// The revision of the body.
pub const VERSION: &str = "MCP-Protocol-Version";
/// The method of the body.
pub const METHOD: &str = "Mcp-Method";
/// The tool, prompt, resource or task that the body names.
pub const NAME: &str = "Mcp-Name";
/// How the headers begin that repeat arguments, in lower case.
pub const PARAM_PREFIX: &str = "mcp-param-";

/// The headers of one request, as they were sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    /// [`VERSION`].
    pub version: Option<&'a str>,
    /// [`METHOD`].
    pub method: Option<&'a str>,
    /// [`NAME`].
    pub name: Option<&'a str>,
    /// Names in lower case without [`PARAM_PREFIX`], and values. A name that was sent twice stands twice.
    pub params: &'a [(Box<str>, Box<str>)],
}

/// Why headers and body do not go together: -32020 with status 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The body has it, the headers have not.
    #[error("`{header}` is missing")]
    Missing {
        /// Which header.
        header: Cow<'static, str>,
    },
    /// The header says another thing than the body.
    #[error("`{header}` differs from the body")]
    Differs {
        /// Which header.
        header: Cow<'static, str>,
    },
    /// Two readers may take two values.
    #[error("`{header}` stands twice")]
    Repeated {
        /// Which header.
        header: Cow<'static, str>,
    },
    /// Neither visible ASCII nor space nor tab.
    #[error("a header holds a character that it must not")]
    BadCharacter,
    /// Marked as base64, but not text in the canonical form of it.
    #[error("a header is marked as base64 and is not")]
    BadEncoding,
}

const BEGIN: &str = "=?base64?";
const END: &str = "?=";

/// What a header value says. Base64 is taken only in its one canonical form: with all padding and with no
/// bits left over, so that a value has no second spelling to slip past somebody (spec H-29).
pub fn decode(value: &str) -> Result<Cow<'_, str>, HeaderError> {
    let value = trimmed(value);
    if !value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        return Err(HeaderError::BadCharacter);
    }
    if !looks_encoded(value) {
        return Ok(value.into());
    }
    // `=?base64?=` has both marks, and they share a character: nobody means that.
    let inside = value.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    let bytes = STANDARD.decode(inside.ok_or(HeaderError::BadEncoding)?);
    let text = String::from_utf8(bytes.map_err(|_| HeaderError::BadEncoding)?);
    Ok(text.map_err(|_| HeaderError::BadEncoding)?.into())
}

/// `value` as a header can carry it: as it is, or in base64 when it would not arrive as it is (spec H-29).
/// The empty value is written so too, since an empty header is easily lost on the way.
pub fn encode(value: &str) -> Cow<'_, str> {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain && !value.is_empty() && trimmed(value) == value && !looks_encoded(value) {
        return value.into();
    }
    let mut out = String::with_capacity(value.len().div_ceil(3) * 4 + BEGIN.len() + END.len());
    out.push_str(BEGIN);
    STANDARD.encode_string(value, &mut out);
    out.push_str(END);
    out.into()
}

/// [`VERSION`] against the revision in the envelope.
pub fn check_version(sent: &Sent<'_>, version: &str) -> Result<(), HeaderError> {
    let header = Cow::Borrowed(VERSION);
    match sent.version.map(trimmed) {
        // An empty header is how some proxies leave one out.
        None | Some("") => Err(HeaderError::Missing { header }),
        Some(value) if value == version => Ok(()),
        Some(_) => Err(HeaderError::Differs { header }),
    }
}

/// [`METHOD`] and [`NAME`] against the body. A request needs both, as far as it has them; other messages need
/// none, but what is sent has to be right (spec D5, H-28). A request that should name something and does not
/// needs no [`NAME`]: its params are at fault.
pub fn check_method_and_name(sent: &Sent<'_>, frame: &Frame) -> Result<(), HeaderError> {
    let header = Cow::Borrowed(METHOD);
    match sent.method.map(trimmed) {
        Some(method) if method == frame.method_name() => {}
        Some(_) => return Err(HeaderError::Differs { header }),
        None if frame.shape() == Shape::Request => return Err(HeaderError::Missing { header }),
        None => {}
    }
    let Some(key) = frame.method().and_then(name_key) else { return Ok(()) };
    let header = Cow::Borrowed(NAME);
    match (sent.name, frame.param_text(key)) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(HeaderError::Missing { header }),
        (Some(sent), name) if name.as_deref() == Some(&*decode(sent)?) => Ok(()),
        (Some(_), _) => Err(HeaderError::Differs { header }),
    }
}

/// What [`NAME`] has to say, not encoded; `None` when the method has no such header, or the body no such name.
pub fn name_of(method: Method, frame: &Frame) -> Option<Cow<'_, str>> {
    frame.param_text(name_key(method)?)
}

/// The member of `params` that [`NAME`] repeats.
fn name_key(method: Method) -> Option<&'static str> {
    let row = method.row();
    if row.form == Form::Notification || !row.exists_in(Revision::R2026_07_28) {
        return None;
    }
    match row.names {
        Names::Tool | Names::Prompt => Some("name"),
        Names::Resource => Some("uri"),
        Names::Task => Some("taskId"),
        Names::Nothing | Names::Reference | Names::Request | Names::Token => None,
    }
}

/// Without the white space that HTTP allows around a value.
fn trimmed(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

fn looks_encoded(value: &str) -> bool {
    value.starts_with(BEGIN) && value.ends_with(END)
}

#[cfg(test)]
mod tests;
