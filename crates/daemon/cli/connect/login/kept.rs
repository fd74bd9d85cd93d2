//! What logins leave on this machine: tokens by server and issuer, and the clients that issuers know us as (spec A-21).
//!
//! Each is a file that its owner alone may read, in a folder that its owner alone may enter. A file that others may read
//! is not used: whoever reads a refresh token is the user from then on.

use std::{
    cmp::Reverse,
    env,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use config::Secret;
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    process::geteuid,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::sleep;

use super::{client::Client, error::LoginError, grant::Token};

/// The largest file that is read, in bytes.
const FILE_BYTES: u64 = 128 * 1024;

/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;

/// How often it is looked whether another process is done.
const LOOK: Duration = Duration::from_millis(100);

/// The files of one server.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    folder: PathBuf,
    /// How the names of its files begin.
    server: String,
}

/// No other process renews the token of the same server until it is dropped.
#[derive(Debug)]
pub(super) struct Alone(#[expect(dead_code, reason = "it is held for what its end does")] File);

/// A token as it is written.
#[derive(Serialize, Deserialize)]
struct WrittenToken {
    server: String,
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
    resource: String,
    scopes: Vec<String>,
    access_token: String,
    refresh_token: Option<String>,
    expires: Option<u64>,
}

/// A client that was registered, as it is written.
#[derive(Serialize, Deserialize)]
struct WrittenClient {
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
    port: u16,
}

impl Kept {
    /// The files of a server, below `$XDG_STATE_HOME` or what stands for it; none where there is no such place.
    pub(super) fn of(server: &str) -> Option<Kept> {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
        Some(Kept::below(&state, server))
    }

    /// Those below a folder for state.
    pub(super) fn below(state: &Path, server: &str) -> Kept {
        Kept { folder: state.join("portcullis/logins"), server: server.to_owned() }
    }

    /// The tokens of this server, those first that were written last.
    pub(super) fn tokens(&self) -> Result<Vec<Token>, LoginError> {
        let mut paths = self.paths()?;
        paths.sort_by_key(|path| Reverse(path.metadata().and_then(|known| known.modified()).ok()));
        let mut tokens = Vec::new();
        for path in paths {
            let written = read::<WrittenToken>(&path)?;
            tokens.extend(written.filter(|written| written.server == self.server).map(Token::from));
        }
        Ok(tokens)
    }

    /// Keeps a token. Those of other issuers for the same server stay until they are given up.
    pub(super) fn keep(&self, token: &Token) -> Result<PathBuf, LoginError> {
        let path = self.folder.join(format!("{}.{}.json", name(&self.server), name(&token.issuer)));
        self.write(&path, &WrittenToken::of(&self.server, token))?;
        Ok(path)
    }

    /// Removes all tokens of this server. Says how many files there were.
    pub(super) fn forget(&self) -> Result<usize, LoginError> {
        let paths = self.paths()?;
        paths.iter().try_for_each(|path| remove(path))?;
        Ok(paths.len())
    }

    fn paths(&self) -> Result<Vec<PathBuf>, LoginError> {
        let prefix = format!("{}.", name(&self.server));
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| unusable(&self.folder, &error))?,
        };
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(&prefix) && name.ends_with(".json")
        };
        Ok(entries.flatten().map(|entry| entry.path()).filter(is_ours).collect())
    }

    /// The client that an issuer registered, and the port that its answers come to.
    pub(super) fn client(&self, issuer: &str) -> Result<Option<(Client, u16)>, LoginError> {
        let written = read::<WrittenClient>(&self.client_path(issuer))?;
        Ok(written.filter(|written| written.issuer == issuer).map(|written| {
            let secret = written.client_secret.map(Secret::new);
            (Client { id: written.client_id, secret }, written.port)
        }))
    }

    /// Keeps a client that was registered.
    pub(super) fn keep_client(&self, issuer: &str, client: &Client, port: u16) -> Result<(), LoginError> {
        let written = WrittenClient {
            issuer: issuer.to_owned(),
            client_id: client.id.clone(),
            client_secret: client.secret.as_ref().map(|secret| secret.expose().to_owned()),
            port,
        };
        self.write(&self.client_path(issuer), &written)
    }

    /// An issuer does not know us any more under that name.
    pub(super) fn forget_client(&self, issuer: &str) -> Result<(), LoginError> {
        remove(&self.client_path(issuer))
    }

    fn client_path(&self, issuer: &str) -> PathBuf {
        self.folder.join(format!("client.{}.json", name(issuer)))
    }

    /// Waits until no other process renews the token of this server.
    pub(super) async fn alone(&self) -> Result<Alone, LoginError> {
        self.make_folder()?;
        let path = self.folder.join(format!("{}.lock", name(&self.server)));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|error| unusable(&path, &error))?;
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(unusable(&path, &error.into()));
            }
            sleep(LOOK).await;
        }
        Ok(Alone(file))
    }

    /// Written aside first, so that nobody ever sees half of it.
    fn write(&self, path: &Path, written: &impl Serialize) -> Result<(), LoginError> {
        self.make_folder()?;
        let text = serde_json::to_vec(written).map_err(|error| unusable(path, &error.into()))?;
        let aside = path.with_extension(format!("{}.new", std::process::id()));
        let write = || {
            // What is left of an attempt that was cut short.
            let _ = fs::remove_file(&aside);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&aside, path)
        };
        write().map_err(|error| unusable(path, &error))
    }

    fn make_folder(&self) -> Result<(), LoginError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        let known = made.and_then(|()| fs::metadata(&self.folder));
        let known = known.map_err(|error| {
            let folder = self.folder.display();
            LoginError::Machine(format!("no token can be kept in {folder}: {error}; see `--token-file`"))
        })?;
        private(&self.folder, &known, "700")
    }
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> Result<(), LoginError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(path, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What is in a file of the owner's own; none where there is none, or nothing that can be read.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LoginError> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| unusable(path, &error))?,
    };
    let known = file.metadata().map_err(|error| unusable(path, &error))?;
    private(path, &known, "600")?;
    let mut text = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut text).map_err(|error| unusable(path, &error))?;
    Ok(serde_json::from_slice(&text).ok())
}

fn private(path: &Path, known: &fs::Metadata, mode: &str) -> Result<(), LoginError> {
    let path = path.display();
    if known.uid() != geteuid().as_raw() {
        return Err(LoginError::Machine(format!("{path} belongs to somebody else: remove it")));
    }
    if known.permissions().mode() & OTHERS != 0 {
        let why = format!("others may read {path}, so it is not used: `chmod {mode}` it, or remove it");
        return Err(LoginError::Machine(why));
    }
    Ok(())
}

fn unusable(path: &Path, error: &io::Error) -> LoginError {
    LoginError::Machine(format!("{}: {error}", path.display()))
}

/// What a file is called after.
fn name(text: &str) -> String {
    let digest = wire::digest_of(text.as_bytes()).0;
    hex::encode(digest.get(..16).unwrap_or(&digest))
}

impl WrittenToken {
    fn of(server: &str, token: &Token) -> WrittenToken {
        let text = |secret: &Secret| secret.expose().to_owned();
        WrittenToken {
            server: server.to_owned(),
            issuer: token.issuer.clone(),
            client_id: token.client.id.clone(),
            client_secret: token.client.secret.as_ref().map(text),
            resource: token.resource.clone(),
            scopes: token.scopes.clone(),
            access_token: text(&token.access),
            refresh_token: token.refresh.as_ref().map(text),
            expires: token.expires,
        }
    }
}

impl From<WrittenToken> for Token {
    fn from(written: WrittenToken) -> Token {
        Token {
            issuer: written.issuer,
            client: Client { id: written.client_id, secret: written.client_secret.map(Secret::new) },
            resource: written.resource,
            scopes: written.scopes,
            access: Secret::new(written.access_token),
            refresh: written.refresh_token.map(Secret::new),
            expires: written.expires,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "https://h/mcp";

    fn token(issuer: &str) -> Token {
        Token {
            issuer: issuer.to_owned(),
            client: Client { id: "us".to_owned(), secret: None },
            resource: SERVER.to_owned(),
            scopes: vec!["a".to_owned()],
            access: Secret::new("access-1".to_owned()),
            refresh: Some(Secret::new("refresh-1".to_owned())),
            expires: Some(7),
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_token_is_kept_by_server_and_issuer_for_its_owner_alone() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::below(state.path(), SERVER);
        assert!(kept.tokens().unwrap().is_empty());
        let first = kept.keep(&token("https://as")).unwrap();
        assert_eq!((mode(&first), mode(&kept.folder)), (0o600, 0o700));
        let [found] = kept.tokens().unwrap().try_into().unwrap();
        assert_eq!(format!("{found:?}"), format!("{:?}", token("https://as")));
        assert_eq!(found.access, token("https://as").access);
        let second = kept.keep(&token("https://other")).unwrap();
        assert_ne!(first, second);
        let issuers: Vec<_> = kept.tokens().unwrap().into_iter().map(|token| token.issuer).collect();
        assert_eq!(issuers, ["https://other", "https://as"], "the last one first");
        assert!(Kept::below(state.path(), "https://h/other").tokens().unwrap().is_empty());
        assert_eq!(fs::read_dir(&kept.folder).unwrap().count(), 2, "nothing is left aside");
        assert_eq!(kept.forget().unwrap(), 2);
        assert_eq!(kept.forget().unwrap(), 0);
    }

    #[test]
    fn what_others_may_read_is_not_used() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::below(state.path(), SERVER);
        let path = kept.keep(&token("https://as")).unwrap();
        for open in [0o640, 0o604, 0o644] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
            let refused = kept.tokens().unwrap_err().to_string();
            assert!(refused.contains("chmod 600") && refused.contains(path.to_str().unwrap()), "{refused}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&kept.folder, fs::Permissions::from_mode(0o755)).unwrap();
        let refused = kept.keep(&token("https://as")).unwrap_err().to_string();
        assert!(refused.contains("chmod 700"), "{refused}");
    }

    #[test]
    fn what_is_no_token_is_none() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::below(state.path(), SERVER);
        let path = kept.keep(&token("https://as")).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        for text in ["", "{}", whole.get(..20).unwrap(), &whole.replace(SERVER, "https://h/other")] {
            fs::write(&path, text).unwrap();
            assert!(kept.tokens().unwrap().is_empty(), "{text}");
        }
        let elsewhere = state.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(kept.tokens().is_err(), "a link is not followed");
    }

    #[test]
    fn issuers_know_us_by_names_of_their_own() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::below(state.path(), SERVER);
        let client = Client { id: "us".to_owned(), secret: Some(Secret::new("s".to_owned())) };
        kept.keep_client("https://as", &client, 7000).unwrap();
        assert_eq!(kept.client("https://as").unwrap(), Some((client, 7000)));
        assert_eq!(kept.client("https://as/").unwrap(), None);
        kept.forget_client("https://as").unwrap();
        assert_eq!(kept.client("https://as").unwrap(), None);
    }

    #[tokio::test]
    async fn one_process_renews_at_a_time() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::below(state.path(), SERVER);
        let first = kept.alone().await.unwrap();
        let second = kept.alone();
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        second.await.unwrap();
    }
}
