//! Where a request begins and ends on a connection, read strictly before the HTTP library sees a byte of it.
//!
//! Whatever two parties could read in two ways is refused here, so that nobody in front of us can be made to disagree
//! with us about where the next request begins (security 28). What is let through is a narrow part of the grammar, on
//! which every reader agrees.

use http::StatusCode;

use crate::frames::Frames;
use crate::transport::refusal::Refusal;

/// The largest head, and the most header fields (security 32).
pub(crate) const HEAD_BYTES: usize = 32 * 1024;
pub(crate) const HEAD_FIELDS: usize = 100;

/// What a chunked body may hold beside its data: extensions and trailers, which nobody reads (security 32).
const CHUNK_EXTRAS: usize = 16 * 1024;

/// More digits than any length has that fits in a message.
const LENGTH_DIGITS: usize = 15;

/// What an HTTP/2 client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Which versions of HTTP a connection may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// HTTP/1.1 alone.
    One,
    /// HTTP/1.1, or HTTP/2 when the client says so first.
    OneOrTwo,
}

/// How far one connection has been read.
#[derive(Debug)]
pub(crate) struct Framing {
    spoken: Spoken,
    at: At,
}

#[derive(Debug)]
enum At {
    /// The first bytes: either version may begin here.
    First,
    /// In a head.
    Head { seen: Seen },
    /// In a body of known length, with as many bytes to come.
    Length(u64),
    /// In a chunked body.
    Chunks(Chunks),
    /// HTTP/2: its frames have their own lengths.
    Frames(Frames),
}

/// What has been seen of a head: lines that are fine, as bytes, and how many of them are fields.
#[derive(Clone, Copy, Debug)]
struct Seen {
    bytes: usize,
    fields: usize,
    /// Empty lines before it, as bytes.
    blank: usize,
    /// It says HTTP/1.1, where bodies may come in chunks.
    chunks: bool,
    /// From the first to the last line that says something about the body, as bytes.
    telling: (usize, usize),
}

/// What stops a connection.
#[derive(Debug)]
pub(crate) enum Broken {
    /// In a head: the client can be told.
    Head(Refusal),
    /// In a body, which ends here.
    Body,
}

impl Framing {
    /// A connection on which nothing has been said.
    pub(crate) fn new(spoken: Spoken) -> Framing {
        Framing { spoken, at: At::First }
    }

    /// The connection carries many requests at a time.
    pub(crate) fn is_multiplexed(&self) -> bool {
        matches!(self.at, At::Frames(_))
    }

    /// Whether a connection that goes on with these bytes carries many requests at a time. None while that is open.
    pub(crate) fn multiplexes(&self, bytes: &[u8]) -> Option<bool> {
        match self.at {
            At::Frames(_) => Some(true),
            At::First if self.spoken == Spoken::One => Some(false),
            At::First if bytes.starts_with(PREFACE) => Some(true),
            At::First if PREFACE.starts_with(bytes) => None,
            At::First | At::Head { .. } | At::Length(_) | At::Chunks(_) => Some(false),
        }
    }

    /// No body is on its way: what comes next belongs to a head.
    pub(crate) fn is_between(&self) -> bool {
        matches!(self.at, At::First | At::Head { .. })
    }

    /// Reads on. `bytes` are those that have not been let through; returns how many of them may be now. A head is let
    /// through as a whole, or not at all. What is broken changes nothing: the same bytes are as broken the next time.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let mut through = 0;
        loop {
            let rest = bytes.get(through..).unwrap_or_default();
            match self.step(rest) {
                // What came before is fine, and is let through first; the same is found again after that.
                Err(_) if through > 0 => return Ok(through),
                Err(broken) => return Err(broken),
                Ok(0) => return Ok(through),
                Ok(step) => through += step,
            }
        }
    }

    fn step(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let multiplexes = self.multiplexes(bytes);
        match &mut self.at {
            At::First => match multiplexes {
                None => Ok(0),
                Some(true) => {
                    self.at = At::Frames(Frames::new());
                    Ok(PREFACE.len())
                }
                Some(false) => {
                    self.at = NEXT;
                    self.step(bytes)
                }
            },
            At::Head { seen } => {
                let Some(head) = whole_head(bytes, seen).map_err(Broken::Head)? else { return Ok(0) };
                let telling = bytes.get(head.telling.0..head.telling.1).unwrap_or_default();
                self.at = body(telling, head.chunks).map_err(Broken::Head)?;
                Ok(head.bytes)
            }
            At::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                if *left == 0 {
                    self.at = NEXT;
                }
                Ok(taken)
            }
            At::Chunks(chunks) => {
                let mut read = *chunks;
                let taken = read.advance(bytes).ok_or(Broken::Body)?;
                self.at = if matches!(read.at, Chunk::End) { NEXT } else { At::Chunks(read) };
                Ok(taken)
            }
            At::Frames(frames) => frames.advance(bytes).map(|()| bytes.len()).ok_or(Broken::Body),
        }
    }
}

const NEXT: At = At::Head { seen: Seen { bytes: 0, fields: 0, blank: 0, chunks: false, telling: (0, 0) } };

/// The head, if its end is there. Every byte of it is looked at once.
fn whole_head(bytes: &[u8], seen: &mut Seen) -> Result<Option<Seen>, Refusal> {
    let mut now = *seen;
    while let Some(at) = memchr::memchr(b'\n', bytes.get(now.bytes..).unwrap_or_default()) {
        let (start, end) = (now.bytes, now.bytes + at);
        if end >= HEAD_BYTES {
            break;
        }
        let line = bytes.get(start..end).and_then(|line| line.strip_suffix(b"\r"));
        let line = line.ok_or_else(|| malformed("a line of the head does not end with CR and LF"))?;
        let first = now.blank == start;
        now.bytes = end + 1;
        match line {
            // Some clients send an empty line after a body; it belongs to nothing (RFC 9112, section 2.2).
            [] if first => now.blank = now.bytes,
            [] => return Ok(Some(now)),
            line if first => now.chunks = check_request_line(line)?,
            line => {
                let name = check_field(line)?;
                now.fields += 1;
                if tells(name) {
                    let from = if now.telling.1 == 0 { start } else { now.telling.0 };
                    now.telling = (from, now.bytes);
                }
            }
        }
        if now.fields > HEAD_FIELDS {
            return Err(too_large(format!("there are more than {HEAD_FIELDS} header fields")));
        }
    }
    if bytes.len() >= HEAD_BYTES {
        return Err(match now.blank == now.bytes {
            true => Refusal::new(StatusCode::URI_TOO_LONG, "the address is too long"),
            false => too_large(format!("the header fields are larger than {HEAD_BYTES} bytes")),
        });
    }
    *seen = now;
    Ok(None)
}

/// `VERB target HTTP/1.x`, with one space each. Returns whether bodies may come in chunks.
fn check_request_line(line: &[u8]) -> Result<bool, Refusal> {
    let mut parts = line.split(|&byte| byte == b' ');
    let (Some(verb), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed("the first line is not `VERB target HTTP/1.1`"));
    };
    if verb.is_empty() || !verb.iter().copied().all(is_token) {
        return Err(malformed("the verb is not a word"));
    }
    if target.is_empty() || target.iter().any(|byte| !byte.is_ascii_graphic() || *byte == b'#') {
        return Err(malformed("the address has characters that must be escaped"));
    }
    match version {
        b"HTTP/1.1" => Ok(true),
        b"HTTP/1.0" => Ok(false),
        _ => Err(Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "speak HTTP/1.1")),
    }
}

/// `name: value`; no space before the colon, no folded line, no control characters. Returns the name.
fn check_field(line: &[u8]) -> Result<&[u8], Refusal> {
    let end = line.iter().position(|&byte| !is_token(byte)).unwrap_or(line.len());
    let (name, rest) = line.split_at_checked(end).unwrap_or_default();
    let value = match rest.strip_prefix(b":") {
        Some(value) if !name.is_empty() => value,
        _ => return Err(no_field(line)),
    };
    // A whole pass: it looks at many bytes at a time, where a search would look at one.
    let control = |byte: u8| (byte < b' ') & (byte != b'\t') | (byte == 0x7f);
    if value.iter().fold(false, |found, &byte| found | control(byte)) {
        return Err(malformed("a header field has control characters"));
    }
    Ok(name)
}

/// Why a line does not begin like a field.
fn no_field(line: &[u8]) -> Refusal {
    malformed(match line {
        [b' ' | b'\t', ..] => "a header field is folded over two lines",
        line if !line.contains(&b':') => "a header field has no colon",
        _ => "the name of a header field is not a word",
    })
}

/// A byte of which names are made.
fn is_token(byte: u8) -> bool {
    TOKENS.get(usize::from(byte)).is_some_and(|is_token| *is_token)
}

/// A table, since each name of each request goes through it.
static TOKENS: [bool; 256] = {
    let mut table = [false; 256];
    let mut rest = table.as_mut_slice();
    let mut byte = 0_u8;
    while let [first, others @ ..] = rest {
        *first = matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+')
            || matches!(byte, b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
        rest = others;
        byte = byte.wrapping_add(1);
    }
    table
};

/// The fields that say something about the body.
const LENGTH: &[u8] = b"content-length";
const CODING: &[u8] = b"transfer-encoding";
const EXPECT: &[u8] = b"expect";

fn tells(name: &[u8]) -> bool {
    [LENGTH, CODING, EXPECT].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// What follows a whole head, by the fields that say so: at most one of them, and once. `telling` are the lines between
/// which they stand.
fn body(telling: &[u8], chunks: bool) -> Result<At, Refusal> {
    let (mut length, mut coding) = (None, None);
    for line in telling.split(|&byte| byte == b'\n') {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
        let known = if name.eq_ignore_ascii_case(LENGTH) {
            &mut length
        } else if name.eq_ignore_ascii_case(CODING) {
            &mut coding
        } else if name.eq_ignore_ascii_case(EXPECT) && !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal::new(StatusCode::EXPECTATION_FAILED, "only `100-continue` can be expected"));
        } else {
            continue;
        };
        if known.replace(value).is_some() {
            return Err(malformed("the length of the body is told twice"));
        }
    }
    match (length, coding) {
        (None, None) => Ok(NEXT),
        (Some(_), Some(_)) => {
            Err(malformed("both `Content-Length` and `Transfer-Encoding` tell the length of the body"))
        }
        (Some(length), None) => Ok(match self::length(length)? {
            0 => NEXT,
            length => At::Length(length),
        }),
        (None, Some(_)) if !chunks => Err(malformed("`Transfer-Encoding` needs HTTP/1.1")),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(At::Chunks(Chunks { at: Chunk::Size { size: 0, digits: 0 }, extras: 0 }))
        }
        (None, Some(_)) => Err(Refusal::new(
            StatusCode::NOT_IMPLEMENTED,
            "the only transfer coding that is read here is `chunked`",
        )),
    }
}

fn length(value: &[u8]) -> Result<u64, Refusal> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(malformed("`Content-Length` is not a number"));
    }
    let value = value.iter().copied().skip_while(|digit| *digit == b'0');
    if value.clone().count() > LENGTH_DIGITS {
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "no body of that length is read here"));
    }
    Ok(value.fold(0, |length, digit| length * 10 + u64::from(digit - b'0')))
}

fn malformed(why: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, format!("malformed request: {why}"))
}

fn too_large(why: String) -> Refusal {
    Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why)
}

/// A chunked body, byte by byte but for its data.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    at: Chunk,
    /// Bytes of extensions and trailers so far.
    extras: usize,
}

#[derive(Clone, Copy, Debug)]
enum Chunk {
    Size {
        size: u64,
        digits: usize,
    },
    Extension {
        size: u64,
    },
    SizeLf {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    /// At the beginning of a trailer, or of the empty line that ends them.
    Trailers,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

impl Chunks {
    /// Reads to the end of the body or of the bytes. None when the framing is broken.
    fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut taken = 0;
        while let Some(&byte) = bytes.get(taken) {
            match self.at {
                Chunk::End => break,
                Chunk::Data { left } => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - taken);
                    let left = left - here as u64;
                    self.at = if left == 0 { Chunk::DataCr } else { Chunk::Data { left } };
                    taken += here;
                }
                at => {
                    self.at = next(at, byte)?;
                    if matches!(self.at, Chunk::Extension { .. } | Chunk::Trailer) {
                        self.extras += 1;
                    }
                    taken += 1;
                }
            }
        }
        (self.extras <= CHUNK_EXTRAS).then_some(taken)
    }
}

/// One byte of what stands around the data.
fn next(at: Chunk, byte: u8) -> Option<Chunk> {
    Some(match (at, byte) {
        (Chunk::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
            let digit = char::from(byte).to_digit(16)?;
            // Bounded, so that no reader's number overflows.
            let digits = Some(digits + 1).filter(|digits| *digits <= LENGTH_DIGITS)?;
            Chunk::Size { size: size * 16 + u64::from(digit), digits }
        }
        (Chunk::Size { size, digits: 1.. }, b';') => Chunk::Extension { size },
        (Chunk::Size { size, digits: 1.. } | Chunk::Extension { size }, b'\r') => Chunk::SizeLf { size },
        (Chunk::Extension { size }, b'\t' | b' '..) => Chunk::Extension { size },
        (Chunk::SizeLf { size: 0 }, b'\n') => Chunk::Trailers,
        (Chunk::SizeLf { size }, b'\n') => Chunk::Data { left: size },
        (Chunk::DataCr, b'\r') => Chunk::DataLf,
        (Chunk::DataLf, b'\n') => Chunk::Size { size: 0, digits: 0 },
        (Chunk::Trailers, b'\r') => Chunk::EndLf,
        (Chunk::Trailer, b'\r') => Chunk::TrailerLf,
        (Chunk::TrailerLf, b'\n') => Chunk::Trailers,
        (Chunk::Trailers | Chunk::Trailer, b'\t' | b' '..) => Chunk::Trailer,
        (Chunk::EndLf, b'\n') => Chunk::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
