//! `state_dir`: made and kept so that nobody but its owner can look in, and owned by one process at a time.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Whoever holds the lock on this file within `state_dir` owns the directory. The file itself stays empty.
const LOCK: &str = "lock";

/// Makes the directory, or tightens the one that exists.
pub(super) fn prepare(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // Whoever writes `state_dir: /tmp` must not have `/tmp` closed to everybody else.
    if is_open(path)? && !is_ours(path)? {
        let why = "others can read it and it holds other files, so it is no directory of its own";
        return Err(io::Error::other(why));
    }
    tighten(path, 0o700)
}

/// We were here before, or nobody was.
fn is_ours(path: &Path) -> io::Result<bool> {
    Ok(path.join(LOCK).try_exists()? || fs::read_dir(path)?.next().is_none())
}

fn is_open(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// Takes the directory for this process; none when another one has it.
pub(super) fn lock(state_dir: &Path) -> io::Result<Option<File>> {
    let file = private_file(&state_dir.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// Opens a file that only its owner may read, made if need be.
pub(super) fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    tighten(path, 0o600)?;
    Ok(file)
}

/// Secrets lie here: what others could read is closed to them, loudly.
fn tighten(path: &Path, mode: u32) -> io::Result<()> {
    if !is_open(path)? {
        return Ok(());
    }
    tracing::warn!(path = %path.display(), "others could read this; now only its owner can");
    fs::set_permissions(path, Permissions::from_mode(mode))
}
