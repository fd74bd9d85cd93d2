//! Names as clients see them, and which native names are not shown at all.
//!
//! Total by construction: an id never contains `__`, so the first `__` of an exposed name ends the id.
//! Look-up goes by table all the same (spec T-02).

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use config::Naming;
use sha2::{Digest as _, Sha256};
use unicode_security::MixedScript as _;

/// The longest native name, in bytes.
const LONGEST_NATIVE: usize = 256;
/// Hex digits of the hash in an alias: 32 bits, and collisions are found out when tables are built.
const HASH_DIGITS: usize = 8;

/// The exposed name of a tool or prompt: `upstream__native`, or an alias of the safe character set with
/// a hash when that has other characters or is longer than `max` (bugs B19, B21). A function of its
/// arguments alone: the same after every restart and in any discovery order.
pub(crate) fn exposed(upstream: &str, native: &str, max: usize) -> Box<str> {
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain = format!("{upstream}__{native}");
    if plain.len() <= max && plain.chars().all(safe) {
        return plain.into();
    }
    let hash = hex::encode(Sha256::digest(native.as_bytes()));
    let room = max.saturating_sub(HASH_DIGITS + 1);
    let mut alias: String = plain.chars().map(|c| if safe(c) { c } else { '_' }).take(room).collect();
    alias.push('_');
    alias.extend(hash.chars().take(HASH_DIGITS));
    alias.into()
}

/// The prefix of an upstream's resource URIs: a legal URI scheme and a `+`.
///
/// Ids may hold `_` and begin with a digit, schemes may not (RFC 3986 section 3.1); ids never hold `.`,
/// so both replacements are reversible and two ids never share a prefix.
pub(super) fn uri_prefix(upstream: &str) -> String {
    let letter_first = if upstream.starts_with(|c: char| c.is_ascii_digit()) { "u.." } else { "" };
    format!("{letter_first}{}+", upstream.replace('_', "."))
}

/// What stands before the native URIs of a view.
#[derive(Debug)]
pub(crate) enum Prefixes {
    /// For each upstream its own; by URI scheme.
    Own(HashMap<Box<str>, Arc<str>>),
    /// Nothing: all of them are this upstream's.
    None(Arc<str>),
}

impl Prefixes {
    /// Those of a view over these upstreams. Bare names belong to exactly one, or to nobody.
    pub(super) fn of(upstreams: &[Arc<str>], naming: Naming) -> Prefixes {
        if let (Naming::Bare, [only]) = (naming, upstreams) {
            return Prefixes::None(Arc::clone(only));
        }
        let own = |id: &Arc<str>| (uri_prefix(id).trim_end_matches('+').into(), Arc::clone(id));
        Prefixes::Own(upstreams.iter().map(own).collect())
    }

    /// The URI that clients know.
    pub(super) fn exposed(&self, upstream: &str, native: &str) -> String {
        match self {
            Prefixes::Own(_) => format!("{}{native}", uri_prefix(upstream)),
            Prefixes::None(_) => native.to_owned(),
        }
    }

    /// The upstream and native URI an exposed URI names.
    pub(super) fn native<'a>(&self, exposed: &'a str) -> Option<(Arc<str>, &'a str)> {
        match self {
            Prefixes::Own(own) => {
                let (scheme, native) = exposed.split_once('+')?;
                Some((Arc::clone(own.get(scheme)?), native))
            }
            Prefixes::None(upstream) => Some((Arc::clone(upstream), exposed)),
        }
    }
}

/// Why a native name is not shown, looking at it alone.
pub(crate) fn flaw(native: &str, own: &str, ids: &[Arc<str>]) -> Option<&'static str> {
    if native.is_empty() {
        return Some("empty name");
    }
    if native.len() > LONGEST_NATIVE {
        return Some("name longer than 256 bytes");
    }
    if native.chars().any(char::is_control) {
        return Some("control character in the name");
    }
    if has_parent_segment(native) {
        return Some("`..` path segment in the name");
    }
    if !native.is_ascii() && !native.is_single_script() {
        return Some("mixed scripts in the name");
    }
    let claims_another =
        native.split_once("__").is_some_and(|(id, _)| id != own && ids.iter().any(|other| **other == *id));
    claims_another.then_some("name begins with another upstream's id")
}

/// Why a native resource URI is not shown, and not read either.
pub(crate) fn uri_flaw(native: &str) -> Option<&'static str> {
    if native.is_empty() {
        return Some("empty URI");
    }
    if native.chars().any(char::is_control) {
        return Some("control character in the URI");
    }
    let path = native.split(['?', '#']).next().unwrap_or(native);
    has_parent_segment(path).then_some("`..` path segment in the URI")
}

/// A `..` segment as some server may read it: also percent-encoded, once or twice (security row 52).
fn has_parent_segment(path: &str) -> bool {
    let decoded = percent_decoded(path);
    let twice = percent_decoded(&decoded);
    [path, &*decoded, &*twice].into_iter().any(|text| text.split(['/', '\\']).any(|segment| segment == ".."))
}

/// The URI with everything decoded that is encoded. What a filter denies must not be readable by spelling
/// it otherwise.
pub(crate) fn percent_decoded(text: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy()
}

/// Positions whose name occurs twice, exactly or but for letter case: nobody can tell such twins apart.
pub(crate) fn twins<'a>(natives: impl Iterator<Item = &'a str>) -> HashMap<usize, &'static str> {
    let mut seen: HashMap<String, Vec<(usize, &str)>> = HashMap::new();
    for (position, native) in natives.enumerate() {
        seen.entry(native.to_lowercase()).or_default().push((position, native));
    }
    let mut flaws = HashMap::new();
    for group in seen.into_values().filter(|group| group.len() > 1) {
        for (position, native) in &group {
            let exact = group.iter().filter(|(_, other)| other == native).count() > 1;
            let why = if exact { "name occurs twice" } else { "another name differs only in letter case" };
            flaws.insert(*position, why);
        }
    }
    flaws
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(upstream: &str, native: &str, expected: &Expect) {
        expected.assert_eq(&exposed(upstream, native, 64));
    }

    #[test]
    fn plain_names_stay_plain_and_others_get_an_alias() {
        check("alpha", "list_things", &expect!["alpha__list_things"]);
        check("alpha", "admin.tools.list", &expect!["alpha__admin_tools_list_ce33de31"]);
        check("alpha", "naïve", &expect!["alpha__na_ve_f86fd89d"]);
        check(
            "alpha",
            &"b".repeat(64),
            &expect!["alpha__bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb_a0fab137"],
        );
    }

    #[test]
    fn aliases_are_unique_and_within_the_limit() {
        let natives: Vec<String> = (0..2000).map(|n| format!("{}{n}", "x".repeat(80))).collect();
        let names: std::collections::HashSet<_> = natives.iter().map(|n| exposed("a", n, 64)).collect();
        assert_eq!(names.len(), natives.len());
        assert!(names.iter().all(|name| name.len() <= 64));
    }

    #[test]
    fn a_uri_prefix_is_a_scheme_and_is_undone_exactly() {
        let ids = ["files", "my_files", "my-files", "9lives", "a_9"];
        let prefixes = Prefixes::of(&ids.map(Arc::from), Naming::Prefixed);
        assert!(matches!(&prefixes, Prefixes::Own(own) if own.len() == ids.len()));
        for id in ids {
            for native in ["file:///a+b", "https://x/y", "db://{t}/{id}", "a+b://c"] {
                let shown = prefixes.exposed(id, native);
                assert!(shown.starts_with(|c: char| c.is_ascii_alphabetic()), "{shown}");
                assert_eq!(prefixes.native(&shown), Some((Arc::from(id), native)));
            }
        }
        assert_eq!(prefixes.native("mem://nothing"), None);
        assert_eq!(prefixes.native("other+mem://x"), None);
    }

    #[test]
    fn a_bare_uri_is_the_native_one() {
        let prefixes = Prefixes::of(&[Arc::from("files")], Naming::Bare);
        for uri in ["mem://x", "files+mem://x", "", "+"] {
            assert_eq!(prefixes.exposed("files", uri), uri);
            assert_eq!(prefixes.native(uri), Some((Arc::from("files"), uri)));
        }
    }

    #[test]
    fn names_that_mislead_are_told_apart() {
        let ids = [Arc::from("alpha"), Arc::from("gamma")];
        for (native, expected) in [
            ("read", None),
            ("alpha__read", None),
            ("gamma__read", Some("name begins with another upstream's id")),
            ("a/../b", Some("`..` path segment in the name")),
            ("a\u{1b}[31m", Some("control character in the name")),
            ("p\u{430}ypal", Some("mixed scripts in the name")),
            ("naïve", None),
            ("合計", None),
            ("", Some("empty name")),
        ] {
            assert_eq!(flaw(native, "alpha", &ids), expected, "{native}");
        }
        assert!(flaw(&"x".repeat(257), "alpha", &ids).is_some());
        for uri in [
            "file:///a/../etc/passwd",
            "file:///a/%2e%2e/etc",
            "file:///a/.%2E/etc",
            "file:///a%2f..%2fetc",
            "file:///a%5C..%5Cetc",
            "file:///a/%252e%252e/etc",
        ] {
            assert_eq!(uri_flaw(uri), Some("`..` path segment in the URI"), "{uri}");
        }
        assert_eq!(flaw("%2e%2e/x", "alpha", &ids), Some("`..` path segment in the name"));
        assert_eq!(uri_flaw("file:///a?x=../b"), None);
    }

    #[test]
    fn twins_are_all_named() {
        let flaws = twins(["a", "b", "A", "c", "c"].into_iter());
        let mut found: Vec<_> = flaws.into_iter().collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                (0, "another name differs only in letter case"),
                (2, "another name differs only in letter case"),
                (3, "name occurs twice"),
                (4, "name occurs twice"),
            ]
        );
    }
}
