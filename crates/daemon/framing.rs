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
        match &mut self.at {
            At::First if self.spoken == Spoken::OneOrTwo && bytes.starts_with(PREFACE) => {
                self.at = At::Frames(Frames::new());
                Ok(PREFACE.len())
            }
            At::First if self.spoken == Spoken::OneOrTwo && PREFACE.starts_with(bytes) => Ok(0),
            At::First => {
                self.at = NEXT;
                self.step(bytes)
            }
            At::Head { seen } => {
                let Some(end) = head_end(bytes, seen).map_err(Broken::Head)? else { return Ok(0) };
                self.at = body(bytes.get(..end).unwrap_or_default()).map_err(Broken::Head)?;
                Ok(end)
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

const NEXT: At = At::Head { seen: Seen { bytes: 0, fields: 0, blank: 0 } };

/// The end of the head, if it is there.
fn head_end(bytes: &[u8], seen: &mut Seen) -> Result<Option<usize>, Refusal> {
    let mut now = *seen;
    while let Some(at) = memchr::memchr(b'\n', bytes.get(now.bytes..).unwrap_or_default()) {
        let end = now.bytes + at;
        if end >= HEAD_BYTES {
            break;
        }
        let line = bytes.get(now.bytes..end).and_then(|line| line.strip_suffix(b"\r"));
        let line = line.ok_or_else(|| malformed("a line of the head does not end with CR and LF"))?;
        let first = now.blank == now.bytes;
        now.bytes = end + 1;
        match line {
            // Some clients send an empty line after a body; it belongs to nothing (RFC 9112, section 2.2).
            [] if first => now.blank = now.bytes,
            [] => return Ok(Some(now.bytes)),
            line if first => check_request_line(line)?,
            line => {
                check_field(line)?;
                now.fields += 1;
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

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

/// `VERB target HTTP/1.x`, with one space each.
fn check_request_line(line: &[u8]) -> Result<(), Refusal> {
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
        b"HTTP/1.1" | b"HTTP/1.0" => Ok(()),
        _ => Err(Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "speak HTTP/1.1")),
    }
}

/// `name: value`; no space before the colon, no folded line, no control characters.
fn check_field(line: &[u8]) -> Result<(), Refusal> {
    if line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
        return Err(malformed("a header field is folded over two lines"));
    }
    let (name, value) = split_field(line).ok_or_else(|| malformed("a header field has no colon"))?;
    if name.is_empty() || !name.iter().copied().all(is_token) {
        return Err(malformed("the name of a header field is not a word"));
    }
    if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err(malformed("a header field has control characters"));
    }
    Ok(())
}

fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    Some((line.get(..colon)?, line.get(colon + 1..)?.trim_ascii()))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What follows a whole head, by the fields that say so: at most one of them, and once.
fn body(head: &[u8]) -> Result<At, Refusal> {
    let (mut length, mut coding) = (None, None);
    let mut fields = head.split(|&byte| byte == b'\n');
    let one = fields.find(|line| !is_blank(line)).is_some_and(|line| line.ends_with(b"HTTP/1.1\r"));
    for (name, value) in fields.filter_map(split_field) {
        let known = if name.eq_ignore_ascii_case(b"content-length") {
            &mut length
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            &mut coding
        } else if name.eq_ignore_ascii_case(b"expect") && !value.eq_ignore_ascii_case(b"100-continue") {
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
        (None, Some(_)) if !one => Err(malformed("`Transfer-Encoding` needs HTTP/1.1")),
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
