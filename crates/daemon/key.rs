//! `admin.key`: what opens the operators' pages. Made at the first start, read by the command line (security 56).

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use http::{HeaderMap, HeaderValue, header};

use crate::failure::Failure;

/// Its file in the state folder.
pub(crate) const FILE: &str = "admin.key";

const BYTES: usize = 32;

/// The operators' key. It is kept as its digest only: comparing digests tells nobody how much of a guess was right.
#[derive(Debug)]
pub(crate) struct Key(wire::Digest);

impl Key {
    /// The key of a state folder, made now if there is none.
    pub(crate) fn open(state_dir: &Path) -> Result<Key, Failure> {
        let path = state_dir.join(FILE);
        let text = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(&path),
            read => read,
        };
        let text = text.map_err(|error| Failure::system(format!("{}: {error}", path.display())))?;
        Ok(Key(wire::digest_of(text.as_bytes())))
    }

    /// The request shows the key: `Authorization: Bearer KEY`, once.
    pub(crate) fn opens(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let shown = value.to_str().ok().and_then(|text| text.split_once(' '));
        shown.is_some_and(|(scheme, key)| {
            scheme.eq_ignore_ascii_case("bearer") && wire::digest_of(key.trim().as_bytes()) == self.0
        })
    }
}

/// The header that shows a key which was read from a file.
pub(crate) fn header(path: &Path) -> Result<HeaderValue, Failure> {
    let advice = "name it with `--key-file FILE`, or its folder with `--state-dir DIR`";
    let text = read(path).map_err(|error| {
        Failure::unavailable(format!("cannot read the operators' key {}: {error}; {advice}", path.display()))
    })?;
    let mut value = HeaderValue::try_from(format!("Bearer {text}"))
        .map_err(|_| Failure::unavailable(format!("{} is no key; {advice}", path.display())))?;
    value.set_sensitive(true);
    Ok(value)
}

fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let key = text.trim();
    if key.len() < 2 * BYTES || !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let why = "it does not hold a key: remove it, and the next start makes a new one";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "others can read the operators' key: `chmod 600` it, or remove it");
    }
    Ok(key.to_owned())
}

/// Written aside first, so that nobody ever sees half of it.
fn make(path: &Path) -> io::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::from)?;
    let key = hex::encode(bytes);
    let aside = path.with_extension("new");
    // What is left of an attempt that was cut short.
    let _ = fs::remove_file(&aside);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    writeln!(file, "{key}")?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (header::AUTHORIZATION, value.parse().unwrap())).collect()
    }

    #[test]
    fn a_key_is_made_once_and_only_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let first = Key::open(folder.path()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim().len(), 2 * BYTES);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = Key::open(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let shown = header(&path).unwrap();
        assert!(shown.is_sensitive());
        let shown = HeaderMap::from_iter([(header::AUTHORIZATION, shown)]);
        assert!(first.opens(&shown) && second.opens(&shown));
        let other = tempfile::tempdir().unwrap();
        assert!(!Key::open(other.path()).unwrap().opens(&shown));
    }

    #[test]
    fn a_key_is_shown_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::open(folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join(FILE)).unwrap();
        let text = text.trim();
        let bearer = format!("Bearer {text}");
        for (values, opens) in [
            (&[bearer.as_str()][..], true),
            (&[&format!("bearer  {text}")], true),
            (&[&bearer, &bearer], false),
            (&[], false),
            (&[text], false),
            (&["Bearer"], false),
            (&["Bearer "], false),
            (&[bearer.get(..bearer.len() - 1).unwrap()], false),
            (&[&format!("{bearer}0")], false),
            (&[&format!("Basic {text}")], false),
        ] {
            assert_eq!(key.opens(&headers(values)), opens, "{values:?}");
        }
    }

    #[test]
    fn a_file_that_holds_no_key_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "\n", "short", "two\nlines"] {
            fs::write(folder.path().join(FILE), text).unwrap();
            let failure = Key::open(folder.path()).unwrap_err().to_string();
            assert!(failure.contains("remove it"), "{failure}");
        }
        assert!(header(&folder.path().join("none")).unwrap_err().to_string().contains("--key-file"));
    }
}
