//! A stranger's text made fit to be passed on: without control characters and internal addresses (spec Z-05).

use std::net::IpAddr;

/// What stands where an internal address stood.
const REDACTED: &str = "[internal address]";

/// At most `most` bytes of `text`, cleaned.
pub(super) fn cleaned(text: &str, most: usize) -> String {
    // Redacting may shorten a text, and what has to be looked at is bounded all the same.
    let text = head(text, 4 * most);
    let visible = text.chars().filter_map(|c| match c {
        '\n' | '\t' => Some(' '),
        c => (!c.is_control()).then_some(c),
    });
    let mut visible: String = visible.collect();
    if let Some(redacted) = redacted(&visible) {
        visible = redacted;
    }
    visible.truncate(head(&visible, most).len());
    visible
}

/// JSON text, with every string in it cleaned; none when a key would change.
pub(super) fn cleaned_json(raw: &str) -> Option<String> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, string)) = rest.find('"').map(|at| rest.split_at(at)) {
        let (quoted, after) = string.split_at(string_length(string)?);
        let said: std::borrow::Cow<'_, str> = serde_json::from_str(quoted).ok()?;
        let shown = cleaned(&said, said.len().max(REDACTED.len()));
        out.push_str(before);
        if shown == said {
            out.push_str(quoted);
        } else if after.trim_start().starts_with(':') {
            return None;
        } else {
            out.push_str(&wire::code::quote(&shown));
        }
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// How long the JSON string at the start of `text` is, quotes included.
fn string_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| match byte {
        _ if std::mem::take(&mut is_escaped) => false,
        b'\\' => {
            is_escaped = true;
            false
        }
        byte => byte == b'"',
    });
    end.map(|end| end + 2)
}

/// The longest start of at most `most` bytes.
fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// The text without internal addresses; none when it has none.
fn redacted(text: &str) -> Option<String> {
    let mut out = String::new();
    // Up to where the text is in `out`, and up to where it was looked at.
    let (mut copied, mut at) = (0, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        match address(rest) {
            Some((length, true)) => {
                out.push_str(text.get(copied..at)?);
                out.push_str(REDACTED);
                at += length;
                copied = at;
            }
            Some((length, false)) => at += length,
            None => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    (copied > 0).then(|| out + text.get(copied..).unwrap_or_default())
}

/// The word at the start of `text` that may be an address: how long it is, and whether it is an internal one.
fn address(text: &str) -> Option<(usize, bool)> {
    let word = text.find(|c: char| !is_of_word(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(word);
    if let Some(rest) = rest.strip_prefix("://").filter(|_| !name.is_empty()) {
        let (length, is_internal) = url(name, rest);
        return Some((word + "://".len() + length, is_internal));
    }
    if let Some((host, is_internal)) = bracketed(text) {
        return Some((host + port_length(text, host), is_internal));
    }
    let long = text.find(|c: char| !c.is_ascii_hexdigit() && !matches!(c, ':' | '.')).unwrap_or(text.len());
    let long =
        text.get(..long)?.trim_end_matches('.').trim_end_matches(|c| c == ':' && !text.starts_with("::"));
    let ends = !text.get(long.len()..)?.starts_with(is_of_word);
    if let (Ok(address), true, 3..) = (long.parse(), ends, long.len()) {
        return Some((long.len(), is_internal(IpAddr::V6(address))));
    }
    let host = name.trim_end_matches(['.', '-']);
    let port = port_length(text, host.len());
    let is_internal = is_internal_address(host) || (port > 0 && is_internal_name(host));
    // What stands behind a path of a program's names is one more of them.
    let colons = if rest.starts_with("::") { 2 } else { 0 };
    let length = if is_internal { host.len() + port } else { word + colons };
    (word > 0).then_some((length, is_internal))
}

/// The same for what stands behind `scheme://`; of a URL to elsewhere only what comes before its host.
fn url(scheme: &str, rest: &str) -> (usize, bool) {
    let end = rest.find(|c: char| c.is_whitespace() || "\"'`<>()".contains(c)).unwrap_or(rest.len());
    let whole = rest.get(..end).unwrap_or_default().trim_end_matches(['.', ',', ';', ':', '!', '?']);
    let authority = whole.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rfind('@').map_or(0, |at| at + 1);
    let host = authority.get(user..).unwrap_or_default();
    let is_internal = bracketed(host).map(|(_, is_internal)| is_internal).unwrap_or_else(|| {
        let name = host.split(':').next().unwrap_or_default();
        // A web server without a domain stands in our own network; in other schemes this is any word.
        let is_web = ["http", "https", "ws", "wss"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
        let is_bare = is_web && !name.is_empty() && !name.contains('.');
        is_bare || is_internal_name(name) || is_internal_address(name)
    });
    (if is_internal { whole.len() } else { authority.len() }, is_internal)
}

/// `[IPV6]` at the start of `text`.
fn bracketed(text: &str) -> Option<(usize, bool)> {
    let (inside, _) = text.strip_prefix('[')?.split_once(']')?;
    let address = inside.split('%').next().unwrap_or_default().parse().ok()?;
    Some((inside.len() + 2, is_internal(IpAddr::V6(address))))
}

/// How long `:PORT` is that follows at `from`; 0 without one.
fn port_length(text: &str, from: usize) -> usize {
    let Some(port) = text.get(from..).and_then(|rest| rest.strip_prefix(':')) else { return 0 };
    let digits = port.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 { 0 } else { digits + 1 }
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+')
}

fn is_internal_address(host: &str) -> bool {
    host.parse().is_ok_and(|address| is_internal(IpAddr::V4(address)))
}

fn is_internal(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_carriers = first == 100 && second & 0xC0 == 64;
            let is_ours = address.is_private() || address.is_loopback() || address.is_link_local();
            is_ours || is_carriers || address.is_unspecified()
        }
        IpAddr::V6(address) => {
            let is_ours = address.is_unique_local() || address.is_loopback();
            is_ours || address.is_unicast_link_local() || address.is_unspecified()
        }
    }
}

fn is_internal_name(host: &str) -> bool {
    const DOMAINS: [&str; 7] =
        ["localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa"];
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    DOMAINS.iter().any(|domain| {
        host.strip_suffix(domain)
            .is_some_and(|before| before.ends_with('.') || (before.is_empty() && *domain == "localhost"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_addresses_are_taken_out_and_all_else_stays() {
        for (text, shown) in [
            ("connect to http://10.0.0.5:8080/a?b=c failed", "connect to [internal address] failed"),
            ("(http://u:p@127.0.0.1/x), then", "([internal address]), then"),
            (
                "dial tcp 192.168.1.9:443: connection refused",
                "dial tcp [internal address]: connection refused",
            ),
            ("host=172.16.0.1.", "host=[internal address]."),
            ("at [::1]:9000 or [fe80::1%eth0]", "at [internal address] or [internal address]"),
            (
                "ws://redis:6379/0 LOCALHOST:80 db.internal:5432",
                "[internal address] [internal address] [internal address]",
            ),
            ("https://[fd00::2]/x and fd00::3", "[internal address] and [internal address]"),
            ("x+http://169.254.169.254/latest", "[internal address]"),
            ("http://[::ffff:10.0.0.1]:80", "[internal address]"),
            ("nine 100.64.0.1 lives", "nine [internal address] lives"),
            ("https://example.com/?to=http://10.1.1.1/x.", "https://example.com/?to=[internal address]."),
            ("mem://one and file:///a, line:12 at 12:30:45", "mem://one and file:///a, line:12 at 12:30:45"),
            (
                "8.8.8.8:53 https://8.8.8.8 2001:db8::1 version 1.2.3",
                "8.8.8.8:53 https://8.8.8.8 2001:db8::1 version 1.2.3",
            ),
            ("localhost is a word; a::b; std::io::Error", "localhost is a word; a::b; std::io::Error"),
            ("größe 合計 [x] ::", "größe 合計 [x] ::"),
        ] {
            assert_eq!(cleaned(text, 2048), shown);
        }
    }

    #[test]
    fn a_long_text_is_cut_and_has_no_control_characters() {
        let long = format!("\u{1b}[31mred\r\n{}", "é".repeat(1 << 20));
        let shown = cleaned(&long, 2048);
        assert!(
            shown.starts_with("[31mred é") && shown.len() <= 2048 && shown.len() > 2040,
            "{}",
            shown.len()
        );
    }

    #[test]
    fn data_keeps_its_form() {
        let clean = |raw| cleaned_json(raw);
        for raw in [r#"{"a" : [1.0, "x\/y", null], "b\"":{}}"#, "7", r#""plain""#] {
            assert_eq!(clean(raw).as_deref(), Some(raw));
        }
        assert_eq!(
            clean(r#"{"at":"http://10.0.0.5:8080","\u0062":"\u001b[0m"}"#).as_deref(),
            Some(r#"{"at":"[internal address]","\u0062":"[0m"}"#)
        );
        assert_eq!(clean(r#"{"10.0.0.5:80" : 1}"#), None);
    }
}
