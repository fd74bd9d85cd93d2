//! From what is written to what it means, with every problem of every file.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::model::{Config, Subject, Tenant};
use crate::problem::{Place, Problem, Severity, Source};
use crate::reader::{At, Reader, Written};
use crate::{Files, Flaw, Loaded, raw, tree};

mod credential;
mod http;
mod identity;
mod limits;
mod policy;
mod process;
mod selection;
mod tenant;
mod together;
mod upstream;
mod virtual_servers;

/// What reading one file gave.
struct Draft<T> {
    /// The file, as far as it could be read.
    raw: Option<At<T>>,
    source: Rc<Source>,
}

/// The run over all files.
struct Checker<'a> {
    files: &'a dyn Files,
    problems: Vec<Problem>,
    /// The folder of the main file.
    folder: PathBuf,
    /// The policy files that were read.
    policies: Vec<PathBuf>,
}

/// The same files, with the folder of secrets that the main file names.
struct Secrets<'a> {
    files: &'a dyn Files,
    folder: Option<PathBuf>,
}

impl Files for Secrets<'_> {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.files.read(path)
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        self.files.matching(pattern)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.files.variable(name)
    }

    fn secret(&self, name: &str) -> Option<String> {
        let there = self.folder.as_ref().and_then(|folder| self.files.secret_in(folder, name));
        there.or_else(|| self.files.secret(name))
    }

    fn secret_in(&self, folder: &Path, name: &str) -> Option<String> {
        self.files.secret_in(folder, name)
    }

    fn program(&self, name: &str, dir: Option<&Path>) -> Option<PathBuf> {
        self.files.program(name, dir)
    }

    fn condition(&self, text: &str, about: &[Subject]) -> Result<(), Vec<Flaw>> {
        self.files.condition(text, about)
    }

    fn resources(&self, glob: &str) -> Result<(), Flaw> {
        self.files.resources(glob)
    }
}

/// Loads the main file and the tenants it names; fails with every problem of every file at once.
pub fn load(path: &Path, files: &dyn Files) -> Result<Loaded, Vec<Problem>> {
    let mut checker = Checker {
        files,
        problems: Vec::new(),
        folder: path.parent().unwrap_or(Path::new("")).to_owned(),
        policies: Vec::new(),
    };
    let others = raw::Tenant::KEYS;
    let Some(main) = checker.read::<raw::Process>(path, (others, "a tenant file")) else {
        return Err(checker.problems);
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let process = main.raw.unwrap_or_default();
    let mut config = checker.process(&process, folder);
    let secrets =
        Secrets { files, folder: process.secrets_dir.as_ref().map(|written| folder.join(&written.0)) };
    let mut checker = Checker { files: &secrets, ..checker };

    let paths = checker.tenant_files(&process, &Place::top(&main.source));
    let others = raw::Process::KEYS;
    let drafts: Vec<Draft<raw::Tenant>> =
        paths.iter().filter_map(|path| checker.read(path, (others, "the main file"))).collect();
    let shared = checker.shared_issuers(&process);
    config.tenants = drafts.iter().filter_map(|draft| checker.tenant(draft.raw.as_ref()?, &shared)).collect();
    config.shared_issuers = shared;
    checker.tenants_together(&process, &drafts);
    checker.reachable(&process, &drafts, !paths.is_empty());
    if paths.is_empty() {
        config.tenants.push(checker.tenant_of_no_file(path));
    }
    checker.finish(config, path, &paths)
}

impl Checker<'_> {
    /// Reads one file; `None` when there is no text to show.
    fn read<T: Written>(
        &mut self,
        path: &Path,
        elsewhere: (&'static [&'static str], &'static str),
    ) -> Option<Draft<T>> {
        let text = match self.files.read(path) {
            Ok(text) => text,
            Err(error) => {
                let problem =
                    Problem::unreadable(path.to_owned(), format!("the file cannot be read: {error}"));
                self.problems
                    .push(problem.hint("it must exist, be readable for this user, and be UTF-8 text"));
                return None;
            }
        };
        // Editors on Windows put a mark in front that is not part of the text.
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let (root, faults) = tree::parse(&text);
        let source = Rc::new(Source { path: path.to_owned(), text });
        let mut reader = Reader::new(self.files, Rc::clone(&source), elsewhere);
        for fault in faults {
            reader.note(fault.span, fault.message, fault.hint);
        }
        let raw = root.and_then(|root| reader.document(&root));
        self.problems.append(&mut reader.problems);
        Some(Draft { raw, source })
    }

    fn tenant_files(&mut self, process: &raw::Process, top: &Place) -> Vec<PathBuf> {
        let folder = top.source.path.parent().unwrap_or(Path::new(""));
        let pattern = folder.join(process.tenants().0);
        let written = process.tenants.as_ref().map(|written| &written.place);
        match self.files.matching(&pattern) {
            Ok(mut paths) => {
                paths.sort();
                if let (Some(place), true) = (written, paths.is_empty()) {
                    let hint = "it is relative to this file; or remove the key";
                    self.error(place, format!("`{}` matches no file", place.written()), hint);
                }
                paths
            }
            Err(error) => {
                let hint = "it must be a glob over files that this user may read";
                self.error(
                    written.unwrap_or(top),
                    format!("the tenant files cannot be listed: {error}"),
                    hint,
                );
                Vec::new()
            }
        }
    }

    /// The tenant of a process without tenant files: it exists and offers nothing.
    fn tenant_of_no_file(&mut self, path: &Path) -> Tenant {
        let warning =
            Problem::unreadable(path.to_owned(), "no tenant file was found: nothing is offered".to_owned());
        let hint = "write `tenants/NAME.yaml` beside this file";
        self.problems.push(warning.graded(Severity::Warning).hint(hint));
        Tenant {
            name: Arc::from("default"),
            identity: None,
            upstreams: Vec::new(),
            policy: None,
            limits: limits::of(&raw::Tenant::default()),
            virtual_servers: vec![virtual_servers::open_server("default", &[])],
            extensions: Vec::new(),
            processes: raw::Tenant::default().processes().0,
            allow: Vec::new(),
            error_status: raw::Tenant::default().error_status().0,
        }
    }

    /// Whether a problem at this path of a file is noted already: what follows from it needs no telling.
    fn told(&self, place: &Place, path: &str) -> bool {
        let here = |problem: &Problem| problem.file == place.source.path && problem.path.starts_with(path);
        self.problems.iter().any(here)
    }

    fn error(&mut self, place: &Place, message: String, hint: &str) {
        self.problems.push(Problem::error(place, message).hint(hint));
    }

    fn warn(&mut self, place: &Place, message: String, hint: &str) {
        self.problems.push(Problem::warning(place, message).hint(hint));
    }

    fn finish(self, config: Config, main: &Path, tenants: &[PathBuf]) -> Result<Loaded, Vec<Problem>> {
        let mut problems = self.problems;
        let files: Vec<PathBuf> = [main]
            .into_iter()
            .map(Path::to_owned)
            .chain(tenants.iter().cloned())
            .chain(self.policies)
            .collect();
        // The order of reading, and within a file from top to bottom.
        let rank = |file: &Path| files.iter().position(|path| path == file).unwrap_or(files.len());
        problems.sort_by_cached_key(|problem| (rank(&problem.file), problem.line, problem.column));
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            // Warnings are for a configuration that runs; now only what stops it counts.
            problems.retain(|problem| problem.severity == Severity::Error);
            return Err(problems);
        }
        Ok(Loaded { config, warnings: problems, files })
    }
}
