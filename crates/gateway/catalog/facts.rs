//! What rules may know about a thing, from its definition and from the configuration.

use admission::{Facts, Trust};
use serde::Deserialize;
use serde_json::value::RawValue;
use wire::Kind;

use super::Source;
use crate::policy;

#[derive(Deserialize)]
struct Definition<'a> {
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
}

/// A hint of the wrong type is none (security row 8).
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hints {
    #[serde(default)]
    read_only_hint: serde_json::Value,
    #[serde(default)]
    destructive_hint: serde_json::Value,
}

impl Source {
    /// The facts of one listed item, of which `raw` is the definition.
    pub(super) fn facts(&self, kind: Kind, (native, exposed): (&str, &str), raw: &str) -> Facts {
        let facts = match kind {
            Kind::Tools | Kind::Prompts => Facts::unknown(exposed),
            Kind::Resources | Kind::Templates => Facts::resource(native),
        };
        let trust = policy::trust(self.config.trust);
        let unknown = Facts { trust, ..facts };
        if kind != Kind::Tools {
            return unknown;
        }
        let egress = self.config.egress.iter().any(|pattern| pattern.matches(native));
        let (destructive, read_only, annotations) = hints(trust, raw);
        Facts { egress, read_only, destructive, annotations, ..unknown }
    }
}

/// Whether a tool destroys, whether it only reads, and what its server says of it. That counts only if the operator
/// takes its word.
fn hints(trust: Trust, raw: &str) -> (bool, bool, Option<Box<str>>) {
    let annotations = match trust {
        Trust::Trusted => serde_json::from_str::<Definition<'_>>(raw).ok().and_then(|it| it.annotations),
        Trust::Standard | Trust::Untrusted => None,
    };
    let hints: Hints = annotations.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let read_only = hints.read_only_hint.as_bool().unwrap_or(false);
    let destructive = !read_only && hints.destructive_hint.as_bool().unwrap_or(true);
    (destructive, read_only, annotations.map(|raw| raw.get().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_its_tools_counts_where_it_is_trusted() {
        use Trust::{Standard, Trusted, Untrusted};
        for (trust, annotations, destructive, read_only) in [
            (Trusted, r#"{"readOnlyHint":true}"#, false, true),
            (Trusted, r#"{"destructiveHint":false}"#, false, false),
            (Trusted, r#"{"readOnlyHint":"yes","destructiveHint":0}"#, true, false),
            (Trusted, r#"{"readOnlyHint":true,"destructiveHint":true}"#, false, true),
            (Trusted, "[]", true, false),
            (Trusted, "{}", true, false),
            (Standard, r#"{"readOnlyHint":true,"destructiveHint":false}"#, true, false),
            (Untrusted, r#"{"readOnlyHint":true}"#, true, false),
        ] {
            let raw = format!("{{\"name\":\"wipe\",\"annotations\":{annotations}}}");
            let (destroys, reads, _) = hints(trust, &raw);
            assert_eq!((destroys, reads), (destructive, read_only), "{trust:?} {annotations}");
        }
    }
}
