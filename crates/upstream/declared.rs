//! What is declared to a server as ours: what the one client behind a seat can do (spec Q-01, X-01, X-02).

use crate::caller::Speaker;
use crate::spec::Seat;
use crate::wishes::Wishes;
use std::sync::{Arc, LazyLock};
use wire::meta;

/// Capabilities that let a server ask back, and what is told apart within each. Few, so that few conversations are begun for the
/// sake of one principal (spec X-02).
const KEPT: [(&str, &[&str]); 3] =
    [("sampling", &["tools", "context"]), ("elicitation", &["form", "url"]), ("roots", &["listChanged"])];

static NOTHING: LazyLock<Arc<str>> = LazyLock::new(|| "{}".into());

/// A client's capabilities as a server hears of them. Two clients that can do the same declare the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Declared(Arc<str>);

impl Declared {
    /// Nothing at all: the server has nobody to ask.
    pub fn nothing() -> Declared {
        Self(Arc::clone(&NOTHING))
    }

    /// What matters of a client's `capabilities`, a raw JSON object.
    pub fn of(capabilities: &str) -> Declared {
        let mut out = String::from("{");
        for (key, inner) in KEPT {
            let Some(value) = object(capabilities, key) else { continue };
            open(&mut out, key);
            out.push('{');
            for name in inner {
                match meta::member(Some(value), name) {
                    Some(raw) if raw.starts_with('{') => open(&mut out, name).push_str("{}"),
                    Some("true") => open(&mut out, name).push_str("true"),
                    Some(_) | None => {}
                }
            }
            out.push('}');
        }
        out.push('}');
        if out == "{}" { Self::nothing() } else { Self(out.into()) }
    }

    /// As it stands in `initialize`: a raw JSON object.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Whether this capability is declared.
    pub fn has(&self, key: &str) -> bool {
        object(&self.0, key).is_some()
    }
}

fn object<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    meta::member(Some(text), key).filter(|raw| raw.starts_with('{'))
}

/// Begins a member.
fn open<'a>(out: &'a mut String, key: &str) -> &'a mut String {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.extend(["\"", key, "\":"]);
    out
}

/// On whose behalf a seat talks with its server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behalf {
    pub(crate) behind: Behind,
    pub(crate) wishes: Wishes,
    /// Who calls, where the server hears of that.
    pub(crate) speaker: Speaker,
}

/// Who is behind a seat, as far as its server is concerned.
#[derive(Clone, Debug, Default)]
pub(crate) enum Behind {
    /// Whoever comes, and the catalog: nothing is declared, and no question finds anybody.
    #[default]
    Many,
    /// One principal, with a client that can do this.
    One(Declared),
}

impl Behind {
    pub(crate) fn of(seat: &Seat, declared: Declared) -> Self {
        match seat {
            Seat::Shared => Self::Many,
            Seat::Principal(_) | Seat::Session(_) => Self::One(declared),
        }
    }

    pub(crate) fn declared(&self) -> Declared {
        match self {
            Self::Many => Declared::nothing(),
            Self::One(declared) => declared.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Declared;

    #[test]
    fn only_what_lets_a_server_ask_is_kept_in_one_order_and_form() {
        for (client, want) in [
            ("{}", "{}"),
            (r#"{"experimental":{"x":{}},"tasks":{}}"#, "{}"),
            (r#"{"sampling":null,"roots":false,"elicitation":"yes"}"#, "{}"),
            (r#"{ "elicitation" : { } }"#, r#"{"elicitation":{}}"#),
            (
                r#"{"roots":{"listChanged":true,"x":1},"elicitation":{"url":{"y":2},"form":{}},"sampling":{"context":{},"tools":{}}}"#,
                r#"{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}"#,
            ),
            (r#"{"roots":{"listChanged":false},"sampling":{"tools":null}}"#, r#"{"sampling":{},"roots":{}}"#),
        ] {
            let declared = Declared::of(client);
            assert_eq!(declared.raw(), want, "{client}");
            assert_eq!(declared == Declared::nothing(), want == "{}");
            assert_eq!(declared.has("roots"), want.contains("roots"));
        }
    }
}
