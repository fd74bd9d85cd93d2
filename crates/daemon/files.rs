//! What loading a configuration asks of this machine: files, variables, secrets, programs.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    env, fs,
    hash::{DefaultHasher, Hash, Hasher as _},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use config::Files;
use rustix::fs::OFlags;

/// A configuration file beyond this is a mistake.
const FILE_BYTES: u64 = 8 * 1024 * 1024;

/// A secret beyond this is a mistake.
const SECRET_BYTES: u64 = 64 * 1024;

/// The file system and the environment of this process.
///
/// A secret `NAME` is the file `NAME` in `secrets_dir`, in `$PORTCULLIS_SECRETS`, else in `secrets/` beside the main
/// file, or in systemd's `$CREDENTIALS_DIRECTORY`; else the variable `PORTCULLIS_SECRET_NAME`. One final line end is
/// not part of it. `UPSTREAM/NAME` is a file in a folder, the credential `UPSTREAM__NAME` of systemd, which has no
/// folders, or `PORTCULLIS_SECRET_UPSTREAM__NAME`.
pub(crate) struct Disk {
    secrets: PathBuf,
    credentials: Option<PathBuf>,
    texts: RefCell<Texts>,
}

/// What was read for one configuration. Two of them are equal when all files, secrets and lists of files say the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    /// By the path that was asked for; nothing where nothing could be read.
    said: BTreeMap<PathBuf, Option<u64>>,
}

impl Texts {
    fn note(&mut self, path: &Path, said: Option<impl Hash>) {
        let hash = said.map(|said| {
            let mut hasher = DefaultHasher::new();
            said.hash(&mut hasher);
            hasher.finish()
        });
        self.said.insert(path.to_owned(), hash);
    }

    /// The folders in which all of it lies, or would lie.
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        let folder = |path: &PathBuf| match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            Some(_) | None => PathBuf::from("."),
        };
        self.said.keys().map(folder).collect()
    }
}

impl Disk {
    /// For a main file: secrets may lie beside it.
    pub(crate) fn beside(main: &Path) -> Disk {
        let beside = || main.parent().unwrap_or(Path::new("")).join("secrets");
        Disk {
            secrets: env::var_os("PORTCULLIS_SECRETS").map_or_else(beside, PathBuf::from),
            credentials: env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from),
            texts: RefCell::default(),
        }
    }

    /// What was read so far.
    pub(crate) fn texts(&self) -> Texts {
        self.texts.borrow().clone()
    }
}

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<String> {
        let read = open(path).and_then(|file| {
            guarded(path, &file.metadata()?)?;
            text(file, FILE_BYTES)
        });
        self.texts.borrow_mut().note(path, read.as_ref().ok());
        read
    }

    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidInput, error);
        let pattern = pattern.to_str().ok_or_else(|| invalid("the pattern is not UTF-8".to_owned()))?;
        let found = glob::glob(pattern).map_err(|error| invalid(error.to_string()))?;
        let found = found.map(|path| path.map_err(io::Error::from)).collect::<io::Result<Vec<_>>>();
        self.texts.borrow_mut().note(Path::new(pattern), found.as_ref().ok());
        found
    }

    fn variable(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }

    fn secret(&self, name: &str) -> Option<String> {
        let given = || self.secret_in(self.credentials.as_deref()?, &name.replace('/', "__"));
        let variable = || env::var(secret_variable(name)).ok().filter(|_| is_plain(name));
        self.secret_in(&self.secrets, name).or_else(given).or_else(|| Some(line(&variable()?).to_owned()))
    }

    fn secret_in(&self, folder: &Path, name: &str) -> Option<String> {
        if !is_plain(name) {
            return None;
        }
        let path = folder.join(name);
        let secret = read(&path, SECRET_BYTES).ok();
        self.texts.borrow_mut().note(&path, secret.as_ref());
        Some(line(&secret?).to_owned())
    }

    fn resources(&self, glob: &str) -> Result<(), config::Flaw> {
        gateway::check_resources(glob)
    }

    fn condition(&self, text: &str, about: &[config::Subject]) -> Result<(), Vec<config::Flaw>> {
        gateway::check_condition(text, about)
    }

    fn program(&self, name: &str, dir: Option<&Path>) -> Option<PathBuf> {
        if name.contains('/') {
            let path = dir.unwrap_or(Path::new("")).join(name);
            return std::path::absolute(path).ok().filter(|path| is_program(path));
        }
        let search = env::var_os("PATH")?;
        // A symbolic link is kept as it is: some programs go by the name they are called.
        let places = env::split_paths(&search).filter(|place| place.is_absolute());
        places.map(|place| place.join(name)).find(|path| is_program(path))
    }
}

/// Whether a name stays within its folder.
fn is_plain(name: &str) -> bool {
    let plain = |part: &str| {
        let word = part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        word && !part.is_empty() && !part.starts_with('.')
    };
    name.split('/').all(plain)
}

/// A secret without its last line end.
fn line(secret: &str) -> &str {
    let line = secret.strip_suffix('\n').unwrap_or(secret);
    line.strip_suffix('\r').unwrap_or(line)
}

fn secret_variable(name: &str) -> String {
    let name = name.replace('/', "__").replace(['-', '.'], "_").to_ascii_uppercase();
    format!("PORTCULLIS_SECRET_{name}")
}

/// Whoever can write a configuration runs programs as us, so nobody else may: not the file, and no folder that it is
/// found by (security 45). What was opened is what is looked at.
fn guarded(path: &Path, opened: &fs::Metadata) -> io::Result<()> {
    let denied = |why: String| io::Error::new(io::ErrorKind::PermissionDenied, why);
    if opened.mode() & 0o022 != 0 {
        return Err(denied("others may write to it: `chmod go-w` it".to_owned()));
    }
    if ![0, rustix::process::geteuid().as_raw()].contains(&opened.uid()) {
        return Err(denied("it belongs to another user".to_owned()));
    }
    let place = fs::canonicalize(path)?;
    let found = fs::metadata(&place)?;
    if (found.dev(), found.ino()) != (opened.dev(), opened.ino()) {
        return Err(denied("it was replaced while it was read".to_owned()));
    }
    for folder in place.ancestors().skip(1) {
        let mode = fs::metadata(folder)?.mode();
        // In a sticky folder nobody can replace what is another's.
        if mode & 0o002 != 0 && mode & 0o1000 == 0 {
            return Err(denied(format!("everybody may write to `{}`, where it lies", folder.display())));
        }
    }
    Ok(())
}

fn read(path: &Path, most: u64) -> io::Result<String> {
    text(open(path)?, most)
}

fn open(path: &Path) -> io::Result<fs::File> {
    // Opening a FIFO, or reading some devices, would wait for somebody who may never come.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let why = format!("it is {}, not a regular file", name(kind));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(file)
}

fn text(file: fs::File, most: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {most} bytes")));
    }
    Ok(text)
}

fn name(kind: fs::FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something special",
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_file_without_its_last_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = folder.path().join("secrets");
        fs::create_dir_all(secrets.join("github")).unwrap();
        fs::write(secrets.join("TOKEN"), "two\nlines\n").unwrap();
        fs::write(secrets.join("github/TOKEN"), "windows\r\n").unwrap();
        fs::write(folder.path().join("outside"), "x").unwrap();
        let credentials = folder.path().join("credentials");
        fs::create_dir_all(&credentials).unwrap();
        fs::write(credentials.join("github__APP"), "given\n").unwrap();
        fs::write(credentials.join("TOKEN"), "not this one").unwrap();
        let disk = Disk { secrets, credentials: Some(credentials), texts: RefCell::default() };
        assert_eq!(disk.secret("github/APP").as_deref(), Some("given"));
        assert_eq!(disk.secret_in(folder.path(), "outside").as_deref(), Some("x"));
        assert_eq!(disk.secret_in(folder.path(), "secrets/../outside"), None);
        assert_eq!(disk.secret("TOKEN").as_deref(), Some("two\nlines"));
        assert_eq!(disk.secret("github/TOKEN").as_deref(), Some("windows"));
        for name in ["", "MISSING", "../outside", "github/../TOKEN", "/TOKEN", "github", "TOKEN/", ".hidden"]
        {
            assert_eq!(disk.secret(name), None, "{name}");
        }
    }

    #[test]
    fn a_configuration_that_others_can_write_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk { secrets: PathBuf::new(), credentials: None, texts: RefCell::default() };
        let (file, open) = (folder.path().join("a.yaml"), folder.path().join("open"));
        fs::write(&file, "x").unwrap();
        fs::create_dir(&open).unwrap();
        let link = folder.path().join("link.yaml");
        std::os::unix::fs::symlink(open.join("a.yaml"), &link).unwrap();
        fs::write(open.join("a.yaml"), "x").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for (bits, fine) in [(0o600, true), (0o644, true), (0o666, false), (0o664, false), (0o602, false)] {
            mode(&file, bits);
            assert_eq!(disk.read(&file).is_ok(), fine, "{bits:o}");
        }
        for (bits, fine) in [(0o755, true), (0o777, false), (0o1777, true)] {
            mode(&open, bits);
            assert_eq!(disk.read(&link).is_ok(), fine, "{bits:o}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_told_and_not_waited_for() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let disk = Disk { secrets: folder.path().to_owned(), credentials: None, texts: RefCell::default() };
        for (path, kind) in
            [(&*fifo, "a FIFO"), (folder.path(), "a folder"), (Path::new("/dev/zero"), "a device")]
        {
            let why = disk.read(path).unwrap_err().to_string();
            assert_eq!(why, format!("it is {kind}, not a regular file"));
        }
        assert_eq!(disk.secret("fifo"), None);
    }

    #[test]
    fn a_secret_variable_keeps_folders_apart() {
        assert_eq!(secret_variable("GITHUB_TOKEN"), "PORTCULLIS_SECRET_GITHUB_TOKEN");
        assert_eq!(secret_variable("github/TOKEN"), "PORTCULLIS_SECRET_GITHUB__TOKEN");
        assert_eq!(secret_variable("my-api.key"), "PORTCULLIS_SECRET_MY_API_KEY");
    }

    #[test]
    fn a_program_is_found_on_the_path_or_in_the_folder_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("serve.sh");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let disk = Disk { secrets: PathBuf::new(), credentials: None, texts: RefCell::default() };
        let shell = disk.program("sh", None).unwrap();
        assert!(shell.is_absolute() && shell.ends_with("sh"));
        assert_eq!(disk.program("./serve.sh", Some(folder.path())), None, "not executable");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(disk.program("./serve.sh", Some(folder.path())).is_some());
        assert_eq!(disk.program("serve.sh", Some(folder.path())), None, "not on the path");
        assert_eq!(disk.program("", None), None);
    }

    #[test]
    fn files_that_match_are_found_and_a_bad_pattern_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.yaml", "b.yaml", "c.json"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let disk = Disk { secrets: PathBuf::new(), credentials: None, texts: RefCell::default() };
        let found = disk.matching(&folder.path().join("*.yaml")).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(disk.read(&found[0]).unwrap(), "a.yaml");
        assert!(disk.matching(Path::new("***")).is_err());
        assert!(disk.matching(&folder.path().join("none/*.yaml")).unwrap().is_empty());
    }
}
