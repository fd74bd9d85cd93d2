//! Tests of loading: whole files in, a model or all problems out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Files, Loaded, Pattern, Problem, load, render};

mod credentials;
mod examples;
mod faults;
mod identity;
mod meaning;
mod page;
mod policies;
mod references;

/// Files, variables, secrets and programs of a test.
pub(crate) struct Memory {
    texts: BTreeMap<PathBuf, String>,
}

impl Memory {
    /// A configuration of named texts.
    pub(crate) fn of(texts: &[(&str, &str)]) -> Memory {
        Memory { texts: texts.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect() }
    }

    /// Loads `portcullis.yaml`.
    pub(crate) fn load(&self) -> Result<Loaded, Vec<Problem>> {
        load(Path::new("portcullis.yaml"), self)
    }

    /// Loads what must be fine.
    pub(crate) fn loaded(&self) -> Loaded {
        self.load().unwrap_or_else(|problems| panic!("{}", render(&problems)))
    }

    /// Loads what must not be fine.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        self.load().err().unwrap_or_default()
    }
}

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<String> {
        let text = self.texts.get(path).cloned().ok_or(io::ErrorKind::NotFound)?;
        if text == "not UTF-8" {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"));
        }
        Ok(text)
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let glob = Pattern::glob(pattern.to_str().unwrap()).unwrap();
        Ok(self.texts.keys().rev().filter(|path| glob.matches(path.to_str().unwrap())).cloned().collect())
    }

    fn condition(&self, text: &str, _about: &[crate::Subject]) -> Result<(), Vec<crate::Flaw>> {
        match text.find("wrong") {
            Some(at) => Err(vec![crate::Flaw {
                why: "is wrong".to_owned(),
                hint: Some("right it".to_owned()),
                at: Some((at, 5)),
            }]),
            None => Ok(()),
        }
    }

    fn resources(&self, glob: &str) -> Result<(), crate::Flaw> {
        match glob.find("..") {
            Some(_) => Err(crate::Flaw { why: "has dots".to_owned(), hint: None, at: None }),
            None => Ok(()),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        let known = [("PORT", "7500"), ("EMPTY", ""), ("SPLIT", "a, b: [c] ${PORT}"), ("WORD", "hunter2")];
        known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    fn secret(&self, name: &str) -> Option<String> {
        let known =
            [("TOKEN", "hunter2"), ("a/TOKEN", "hunter3"), ("github/TOKEN", "hunter4"), ("EMPTY", "")];
        known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    fn secret_in(&self, folder: &Path, name: &str) -> Option<String> {
        let text = self.texts.get(&folder.join(name))?;
        Some(text.trim_end_matches('\n').to_owned())
    }

    fn program(&self, name: &str, _dir: Option<&Path>) -> Option<PathBuf> {
        let known = ["npx", "uvx", "sh", "env", "python3"];
        known.contains(&name).then(|| Path::new("/usr/bin").join(name))
    }
}
