//! Request ids: a JSON string or an integer, kept as it was written (spec B-02, security 38).

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::{
    frame::FrameError,
    scan::{self, Budget, Root},
    text,
};

/// The most bytes an id may have, quotes included.
pub(crate) const MOST_BYTES: usize = 256;

/// The id of a request. Two ids are equal when type and value are: `7` is not `"7"`, but `"\u0037"` is.
// INVARIANT: `raw` is a valid JSON string or a JSON integer of at most 256 bytes.
#[derive(Clone)]
pub struct Id {
    raw: Arc<str>,
    /// Where another spelling of the same id exists, the one by which they are compared.
    plain: Option<Arc<str>>,
}

impl Id {
    /// Reads the JSON text of an id.
    pub fn from_raw(text: &str) -> Result<Id, FrameError> {
        if text.len() > MOST_BYTES {
            return Err(FrameError::BadId);
        }
        if is_integer(text) {
            let plain = (text == "-0").then(|| Arc::from("0"));
            return Ok(Id { raw: text.into(), plain });
        }
        let budget = Budget { bytes: MOST_BYTES, depth: 0, nodes: 1 };
        let is_bare = text.starts_with('"') && text.ends_with('"');
        match scan::scan(text.as_bytes(), &budget) {
            Ok(found) if is_bare && found.root == Root::Scalar => {}
            _ => return Err(FrameError::BadId),
        }
        let plain = if text.contains('\\') {
            let value = text::string(text.as_bytes()).ok_or(FrameError::BadId)?;
            // The value between quotes, unescaped: an inner quote is no trouble, since it is only compared.
            Some(Arc::from(format!("\"{value}\"")))
        } else {
            None
        };
        Ok(Id { raw: text.into(), plain })
    }

    /// An id of our own.
    pub fn number(n: u64) -> Id {
        Id { raw: itoa::Buffer::new().format(n).into(), plain: None }
    }

    /// The id as JSON text, as it came.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The number, also when it came back as a string: some servers answer every id as text (bug B13).
    pub fn as_number(&self) -> Option<u64> {
        let value = self.value();
        let value = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
        if value.starts_with('+') || (value.starts_with('0') && value.len() > 1) {
            return None;
        }
        value.parse().ok()
    }

    fn value(&self) -> &str {
        self.plain.as_deref().unwrap_or(&self.raw)
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = digits == "0" || !digits.starts_with('0');
    !digits.is_empty() && is_canonical && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.value() == other.value()
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value().hash(state);
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.raw)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raw)
    }
}

#[cfg(test)]
mod tests;
