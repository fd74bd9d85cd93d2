//! The form in which rules judge the URI of a resource: texts that servers read as one have one form, and what a server
//! could read as another has none. Forwarded is the text itself.

use crate::Flaw;

/// Schemes of which everybody reads the host without regard to case, as the WHATWG and RFC 3986 6.2.2.1 say, and the
/// ports that need not be written. Of other schemes servers read the host as a name of their own.
const WEB: [(&str, &str); 4] = [("http", ":80"), ("https", ":443"), ("ws", ":80"), ("wss", ":443")];

/// Whether a text is a URI, or a glob over URIs, in which `*` and `?` stand for others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    Uri,
    Glob,
}

/// The form of a URI; none where it could be read as another.
pub(crate) fn judged(uri: &str) -> Option<String> {
    form(uri, Text::Uri).ok()
}

/// Whether a URI stands in the form it is judged in.
pub(super) fn is_judged(uri: &str) -> bool {
    judged(uri).is_some_and(|form| form == uri)
}

/// The glob over the forms of the URIs that a glob means.
///
/// # Errors
/// When no URI in that form can match.
pub fn resources_glob(glob: &str) -> Result<String, Flaw> {
    form(glob, Text::Glob).map_err(|why| {
        Flaw::new(format!("matches nothing: a URI {why} is always denied"))
            .hint("write it in its plainest form: no dot segments, no escapes that need not be")
    })
}

fn form(text: &str, what: Text) -> Result<String, &'static str> {
    if text.trim() != text {
        return Err("with spaces around it");
    }
    let (scheme, rest) = split_scheme(text);
    let mut out = String::with_capacity(text.len() + 8);
    if !scheme.is_empty() {
        out.push_str(&scheme);
        out.push(':');
    }
    let path = match WEB.iter().find(|(web, _)| *web == scheme) {
        Some((_, port)) => web(rest, port, what, &mut out)?,
        None if scheme == "file" => file(rest, what, &mut out)?,
        None => rest,
    };
    escapes(path, what, &mut out)?;
    let delimiters: &[char] = if what == Text::Uri { &['/', '?', '#'] } else { &['/', '#'] };
    match out.split(delimiters).any(|part| part == "." || part == "..") {
        true => Err("with dot segments"),
        false => Ok(out),
    }
}

fn split_scheme(text: &str) -> (String, &str) {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => (String::new(), text),
    }
}

/// Where the authority ends that begins here.
fn authority(rest: &str, what: Text) -> (&str, &str) {
    let ends: &[char] = if what == Text::Uri { &['/', '?', '#'] } else { &['/', '#'] };
    rest.split_at(rest.find(ends).unwrap_or(rest.len()))
}

/// Writes the authority of a URL of the web; returns its path.
fn web<'t>(rest: &'t str, port: &str, what: Text, out: &mut String) -> Result<&'t str, &'static str> {
    let rest = rest.strip_prefix("//").ok_or("of the web without `//`")?;
    let (host, path) = authority(rest, what);
    let lower = host.to_ascii_lowercase();
    let host = lower.strip_suffix(port).or_else(|| lower.strip_suffix(':')).unwrap_or(&lower);
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if host.is_empty() || name.ends_with('.') || !host.is_ascii() || host.contains(['@', '%']) {
        return Err("with an odd host");
    }
    out.push_str("//");
    out.push_str(host);
    // What follows `#` is never sent to anybody.
    let path = path.split_once('#').map_or(path, |(path, _)| path);
    if !path.starts_with('/') && !host.contains('*') {
        out.push('/');
    }
    Ok(path)
}

/// Writes the authority of the URI of a file; returns its path.
fn file<'t>(rest: &'t str, what: Text, out: &mut String) -> Result<&'t str, &'static str> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, path) = authority(rest, what);
            out.push_str("//");
            match host.to_ascii_lowercase().as_str() {
                "localhost" => (),
                host => out.push_str(host),
            }
            path
        }
        None => {
            out.push_str(if rest.starts_with('/') { "//" } else { "" });
            rest
        }
    };
    if path.contains("//") {
        return Err("of a file with an empty segment");
    }
    // In templates `{?…}` and `{#…}` stand for a query.
    let query = path.replace("{?", "").replace("{#", "").contains(['?', '#']);
    match what == Text::Uri && query {
        true => Err("of a file with a query"),
        false => Ok(path),
    }
}

/// Writes a path and what follows it, with each character that may be escaped or not in one way.
fn escapes(path: &str, what: Text, out: &mut String) -> Result<(), &'static str> {
    let mut in_path = true;
    let mut rest = path.char_indices();
    while let Some((at, character)) = rest.next() {
        match character {
            '%' => {
                let hex = path.get(at + 1..at + 3).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
                let byte =
                    hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).ok_or("with a broken escape")?;
                rest.nth(1);
                match byte {
                    b'/' | b'\\' | b'%' => return Err("with an escape of `/`, `\\` or `%`"),
                    byte if byte.is_ascii_control() => return Err("with control characters"),
                    byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                        return Err("with an escape that need not be");
                    }
                    byte if in_path && b"!$&'()+,;=:@{}".contains(&byte) => out.push(char::from(byte)),
                    byte => escape(byte, out),
                }
            }
            '\\' => return Err("with `\\`"),
            character if character.is_control() => return Err("with control characters"),
            '*' if what == Text::Uri => escape(b'*', out),
            ' ' | '"' | '<' | '>' | '^' | '`' | '|' => {
                character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(byte, out));
            }
            character if !character.is_ascii() => {
                character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(byte, out));
            }
            character => {
                in_path &= !matches!(character, '?' | '#');
                out.push(character);
            }
        }
    }
    Ok(())
}

fn escape(byte: u8, out: &mut String) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let digit = |at: u8| DIGITS.get(usize::from(at)).copied().unwrap_or_default();
    out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_reads_as_one_is_judged_as_one() {
        for (uri, form) in [
            ("mem://one", "mem://one"),
            ("mem://One/{id}?q=1#x", "mem://One/{id}?q=1#x"),
            ("urn:isbn:1", "urn:isbn:1"),
            ("HTTPS://Example.COM:443/A?b=%2b#c", "https://example.com/A?b=%2B"),
            ("http://example.com", "http://example.com/"),
            ("http://example.com:8080?x", "http://example.com:8080/?x"),
            ("file://localhost/a", "file:///a"),
            ("file:/a", "file:///a"),
            ("FILE:///a%28b%29%c3%a9", "file:///a(b)%C3%A9"),
            ("file:///a(b)é", "file:///a(b)%C3%A9"),
            ("file:///a b*", "file:///a%20b%2A"),
            ("file:///a%20b%2a", "file:///a%20b%2A"),
            ("mem://x?a=1%26b", "mem://x?a=1%26b"),
            ("file:///{+path}{?rev}", "file:///{+path}{?rev}"),
        ] {
            assert_eq!(judged(uri).as_deref(), Some(form), "{uri}");
            assert!(is_judged(form), "{form}");
        }
    }

    #[test]
    fn what_a_server_could_read_as_another_has_no_form() {
        for uri in [
            "file:///srv/../etc",
            "file:///srv/%2e%2e/etc",
            "file:///srv/.",
            "file:///%73rv",
            "file:///a%2fb",
            "file:///a%5Cb",
            "file:///a%252e",
            "file:///a%00",
            "file:///a%",
            "file:///a%+1",
            "file:///a\\b",
            "file:///a\tb",
            "file:////etc/passwd",
            "file:///srv//a",
            "file:///etc/passwd?x",
            "file:///etc/passwd#x",
            " file:///etc/passwd",
            "https:/example.com/",
            "https:///example.com/",
            "https://a@example.com/",
            "https://example.com./",
            "https://example.com.:443/",
            "https://ex%61mple.com/",
            "https://ｅxample.com/",
        ] {
            assert_eq!(judged(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_glob_means_what_its_author_would_read() {
        for (glob, form) in [
            ("*", "*"),
            ("file:///srv/*", "file:///srv/*"),
            ("file:///my docs/?", "file:///my%20docs/?"),
            ("HTTPS://*.Example.com/*", "https://*.example.com/*"),
            ("https://example.com*", "https://example.com*"),
            ("https://example.com", "https://example.com/"),
            ("*://x/y", "*://x/y"),
        ] {
            assert_eq!(resources_glob(glob).as_deref(), Ok(form), "{glob}");
        }
        let why = resources_glob("file:///srv/../*").unwrap_err().why;
        assert_eq!(why, "matches nothing: a URI with dot segments is always denied");
    }
}
