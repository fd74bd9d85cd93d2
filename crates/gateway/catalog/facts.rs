//! What rules may know about a thing, from its definition and from the configuration.

use admission::{Facts, Sort, Trust};
use config::Upstream;
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
        let (sort, unknown) = match kind {
            Kind::Tools => (Sort::Tool, Facts::unknown(exposed)),
            Kind::Prompts => (Sort::Prompt, Facts::unknown(exposed)),
            Kind::Resources | Kind::Templates => (Sort::Resource, Facts::resource(native)),
        };
        let facts = configured(&self.config, (sort, native), unknown);
        if sort != Sort::Tool {
            return facts;
        }
        let (destructive, read_only, annotations) = hints(facts.trust, raw);
        Facts { read_only, destructive, annotations, ..facts }
    }
}

/// These facts, with what the operator says of a thing by its native name.
pub(crate) fn configured(upstream: &Upstream, (sort, native): (Sort, &str), facts: Facts) -> Facts {
    let is_tool = sort == Sort::Tool;
    let own = upstream.tool_scopes.iter().filter(|(glob, _)| is_tool && glob.matches(native));
    let mut scopes: Vec<Box<str>> = Vec::new();
    for scope in upstream.scopes.iter().chain(own.flat_map(|(_, needed)| needed)) {
        if !scopes.iter().any(|known| **known == **scope) {
            scopes.push(scope.as_str().into());
        }
    }
    Facts {
        trust: policy::trust(upstream.trust),
        egress: is_tool && upstream.egress.iter().any(|glob| glob.matches(native)),
        scopes: scopes.into(),
        ..facts
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
