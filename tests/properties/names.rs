//! Names as clients see them: total, safe, and apart.

use std::sync::Arc;

use crate::{
    halves,
    native_names::{exposed, flaw, percent_decoded, twins, uri_flaw},
};

/// Two native names.
pub(crate) fn check(data: &[u8]) {
    let (one, other) = halves(data);
    let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    for max in [32, 64, 128] {
        let shown = exposed("alpha", &one, max);
        assert!(shown.len() <= max, "{shown}");
        assert!(shown.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{shown}");
        assert!(shown.starts_with("alpha__"), "{shown}");
        assert_eq!(shown, exposed("alpha", &one, max));
        if one != other {
            // Of 32 bits of a hash, equal ones are found when tables are built; none are in any run of this.
            assert_ne!(shown, exposed("alpha", &other, max), "{one} {other}");
        }
        assert_ne!(shown, exposed("beta", &one, max));
    }
    let ids = [Arc::from("alpha"), Arc::from("beta")];
    let is_shown = flaw(&one, "alpha", &ids).is_none();
    if is_shown {
        assert!(!one.is_empty() && one.len() <= 256 && !one.chars().any(char::is_control));
        assert!(!one.starts_with("beta__") && !climbs(&one));
    }
    if uri_flaw(&one).is_none() {
        let path = one.split(['?', '#']).next().unwrap_or_default();
        assert!(!one.chars().any(char::is_control) && !climbs(path), "{one}");
    }
    let names = [&*one, &*other, "x"];
    let flaws = twins(names.into_iter());
    let alike = one.to_lowercase() == other.to_lowercase();
    assert_eq!(flaws.contains_key(&0), alike || one.to_lowercase() == "x");
    assert_eq!(flaws.contains_key(&1), alike || other.to_lowercase() == "x");
}

/// Whether some reader finds a `..` segment.
fn climbs(path: &str) -> bool {
    let once = percent_decoded(path).into_owned();
    let twice = percent_decoded(&once).into_owned();
    [path, &once, &twice].iter().any(|text| text.split(['/', '\\']).any(|segment| segment == ".."))
}
