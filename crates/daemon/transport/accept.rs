//! Media types: what the client takes, and what it sent. Parsed, never compared letter by letter (bug B57).

use http::{HeaderMap, header};

/// The two media types of Streamable HTTP.
const JSON: (&str, &str) = ("application", "json");
const EVENTS: (&str, &str) = ("text", "event-stream");

/// What the `Accept` headers say about our two media types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepts {
    /// `application/json` is taken.
    pub(crate) json: bool,
    /// `text/event-stream` is taken.
    pub(crate) events: bool,
    /// Event streams were asked for by name. Who says `*/*`, or nothing, gets JSON wherever JSON will do: it is what
    /// such clients can read.
    pub(crate) events_by_name: bool,
}

/// How well a media range fits a media type; the best fit decides (RFC 9110, section 12.5.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Anything,
    Type,
    Exact,
}

impl Accepts {
    /// Both, by name.
    pub(crate) const EVERYTHING: Accepts = Accepts { json: true, events: true, events_by_name: true };

    /// Reads all `Accept` headers as one list. No header, or an empty one, takes everything.
    pub(crate) fn of(headers: &HeaderMap) -> Accepts {
        let mut values = headers.get_all(header::ACCEPT).iter();
        if let (Some(value), None) = (values.next(), values.next())
            && let Some(accepts) = Accepts::well_known(value.as_bytes())
        {
            return accepts;
        }
        let lines = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<Range<'_>> =
            lines.flat_map(|line| split(line, ',')).filter_map(Range::read).collect();
        if ranges.is_empty() {
            let unsaid = headers.get_all(header::ACCEPT).iter().all(|value| value.is_empty());
            return Accepts { json: unsaid, events: unsaid, events_by_name: false };
        }
        let events = best(&ranges, EVENTS);
        Accepts {
            json: best(&ranges, JSON).is_some(),
            events: events.is_some(),
            events_by_name: events.is_some_and(|fit| fit > Fit::Anything),
        }
    }

    /// What clients really send, known at a glance.
    fn well_known(value: &[u8]) -> Option<Accepts> {
        let (json, events, events_by_name) = match value {
            b"application/json, text/event-stream"
            | b"text/event-stream, application/json"
            | b"application/json,text/event-stream"
            | b"text/event-stream,application/json" => (true, true, true),
            b"application/json" => (true, false, false),
            b"text/event-stream" => (false, true, true),
            b"*/*" => (true, true, false),
            _ => return None,
        };
        Some(Accepts { json, events, events_by_name })
    }

    /// The answer to a POST may be an event stream.
    pub(crate) fn stream_in_answer(self) -> bool {
        self.events_by_name || (self.events && !self.json)
    }
}

/// The one `Content-Type` is JSON; parameters such as a charset do not matter.
pub(crate) fn sends_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    if value == "application/json" {
        return true;
    }
    let Ok(text) = value.to_str() else { return false };
    let essence = text.split(';').next().unwrap_or_default();
    essence.split_once('/').is_some_and(|(main, sub)| is(main, JSON.0) && is(sub, JSON.1))
}

/// The body is sent as it is: no `Content-Encoding`, or `identity`.
pub(crate) fn sends_plain(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.all(|value| value.to_str().is_ok_and(|text| text.trim().is_empty() || is(text, "identity")))
}

/// One media range: `text/*;q=0.5`.
struct Range<'a> {
    main: &'a str,
    sub: &'a str,
    wanted: bool,
}

impl Range<'_> {
    fn read(text: &str) -> Option<Range<'_>> {
        let mut parts = split(text, ';');
        let (main, sub) = parts.next()?.split_once('/')?;
        let weight = parts.filter_map(|part| part.split_once('=')).find(|(name, _)| is(name, "q"));
        // A weight that is no number is taken for the default, 1.
        let refused = weight.is_some_and(|(_, value)| value.trim().parse::<f32>().is_ok_and(|q| q <= 0.0));
        Some(Range { main: main.trim(), sub: sub.trim(), wanted: !refused })
    }

    fn fits(&self, (main, sub): (&str, &str)) -> Option<Fit> {
        match (self.main, self.sub) {
            ("*", "*") => Some(Fit::Anything),
            (m, "*") if is(m, main) => Some(Fit::Type),
            (m, s) if is(m, main) && is(s, sub) => Some(Fit::Exact),
            _ => None,
        }
    }
}

/// The best fit for a media type, when the ranges that fit best want it.
fn best(ranges: &[Range<'_>], media: (&str, &str)) -> Option<Fit> {
    let fits = || ranges.iter().filter_map(|range| range.fits(media).map(|fit| (fit, range.wanted)));
    let best = fits().map(|(fit, _)| fit).max()?;
    fits().any(|(fit, wanted)| fit == best && wanted).then_some(best)
}

fn is(text: &str, word: &str) -> bool {
    text.trim().eq_ignore_ascii_case(word)
}

/// Splits a header at a separator that stands outside of quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect()
    }

    fn accepts(values: &[&str]) -> (bool, bool, bool) {
        let accepts = Accepts::of(&headers(header::ACCEPT, values));
        (accepts.json, accepts.events, accepts.stream_in_answer())
    }

    #[test]
    fn every_spelling_of_what_we_have_is_taken() {
        let both = (true, true, true);
        let json = (true, false, false);
        let events = (false, true, true);
        for (values, expected) in [
            (&[][..], (true, true, false)),
            (&[""], (true, true, false)),
            (&["*/*"], (true, true, false)),
            (&["application/json, text/event-stream"], both),
            (&["text/event-stream,application/json"], both),
            (&["application/json", "text/event-stream"], both),
            (&["TEXT/Event-Stream ; q=0.1 , Application/JSON"], both),
            (&["application/*"], json),
            (&["application/json"], json),
            (&["application/json", "image/png"], json),
            (&["application/json;charset=\"a,b;q=0\""], json),
            (&["text/event-stream"], events),
            (&["text/*"], events),
            (&["text/html, */*;q=0.8"], (true, true, false)),
            (&["application/json;q=nonsense"], json),
        ] {
            assert_eq!(accepts(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_weight_of_zero_excludes_and_the_closest_range_decides() {
        for (value, expected) in [
            ("text/event-stream;q=0, */*", (true, false, false)),
            ("*/*;q=0, application/json", (true, false, false)),
            ("application/json;q=0.0, application/*, text/event-stream;Q=0.000", (false, false, false)),
        ] {
            assert_eq!(accepts(&[value]), expected, "{value}");
        }
    }

    #[test]
    fn what_we_do_not_have_is_not_acceptable() {
        for value in ["text/html", "text/html, image/*", "json", "application/jsonp", "*/json", ";q=1", ","] {
            assert_eq!(accepts(&[value]), (false, false, false), "{value}");
        }
    }

    #[test]
    fn a_content_type_is_read_without_its_parameters() {
        for (values, expected) in [
            (&["application/json"][..], true),
            (&["Application/JSON; charset=utf-8"], true),
            (&["application/json;"], true),
            (&[], false),
            (&["text/plain"], false),
            (&["application/json-patch+json"], false),
            (&["text/plain; application/json"], false),
            (&["application/json", "text/plain"], false),
        ] {
            assert_eq!(sends_json(&headers(header::CONTENT_TYPE, values)), expected, "{values:?}");
        }
    }

    #[test]
    fn a_packed_body_is_seen() {
        for (values, expected) in
            [(&[][..], true), (&["identity"], true), (&["gzip"], false), (&["identity", "br"], false)]
        {
            assert_eq!(sends_plain(&headers(header::CONTENT_ENCODING, values)), expected, "{values:?}");
        }
    }
}
