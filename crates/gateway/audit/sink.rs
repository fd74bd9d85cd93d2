//! Where audit lines go.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Write},
    os::{
        fd::AsFd as _,
        unix::fs::{
            DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
        },
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use time::OffsetDateTime;

/// A file that would grow beyond this is set aside first.
const FILE_MAX: u64 = 64 * 1024 * 1024;

/// A file that was moved or removed is noticed by the first write so long after the last look.
const LOOK: Duration = Duration::from_millis(2);

/// The file that is being written.
const FILE: &str = "audit.jsonl";

/// A place for lines.
pub(super) trait Sink: Send {
    /// Hands over whole lines and says how many bytes of them, counted from the front, the operating system took.
    /// The error says why that is not all. The next call starts on a fresh line, whatever became of this one.
    fn write(&mut self, lines: &[u8]) -> Written;

    /// Whether a write returns at once: true for a file, which the system takes into its own memory; false for whatever
    /// waits for a reader.
    fn is_swift(&self) -> bool;

    /// For the operator.
    fn name(&self) -> String;
}

/// What became of a group of lines.
#[derive(Debug)]
pub(super) struct Written {
    /// Bytes taken.
    pub(super) bytes: usize,
    /// Why not all of them.
    pub(super) error: Option<io::Error>,
}

impl Written {
    fn nothing(error: io::Error) -> Written {
        Written { bytes: 0, error: Some(error) }
    }
}

/// Files in one directory: `audit.jsonl` grows, and is set aside under the time when it is full.
pub(super) struct FileSink {
    directory: PathBuf,
    open: Option<Open>,
    file_max: u64,
    look: Duration,
}

/// The file that lines are appended to.
struct Open {
    file: File,
    /// Device and inode: what tells it from another file of its name.
    identity: (u64, u64),
    /// A file with a length of its own, no pipe or device.
    regular: bool,
    /// When it was last seen to be in its place.
    seen: Instant,
    /// Its length, where that means something (not for a pipe or a device).
    length: u64,
}

impl FileSink {
    /// Makes the directory, if need be, and opens the file in it.
    pub(super) fn start(directory: &Path) -> io::Result<FileSink> {
        FileSink::start_with(directory, FILE_MAX, LOOK)
    }

    pub(super) fn start_with(directory: &Path, file_max: u64, look: Duration) -> io::Result<FileSink> {
        let named = |why: io::Error| {
            let text = format!("the audit directory `{}` cannot be written: {why}", directory.display());
            io::Error::new(why.kind(), text)
        };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(named)?;
        let open = open(&directory.join(FILE)).map_err(named)?;
        Ok(FileSink { directory: directory.to_owned(), open: Some(open), file_max, look })
    }

    /// The file for the next `coming` bytes: the open one while it is still the one in the directory and has room.
    fn ready(&mut self, coming: u64) -> io::Result<&mut Open> {
        let path = self.directory.join(FILE);
        // Lines must not go to a file that was moved, removed or is on a disk that went away. The directory itself is
        // made at the start only: where it vanished, making it anew could hide the lost one.
        let look = self.look;
        let open = self.open.take().and_then(|open| open.seen_at(&path, look));
        let open = match open {
            Some(open) if open.length == 0 || open.length.saturating_add(coming) <= self.file_max => open,
            Some(full) => match set_aside(&self.directory) {
                Ok(()) => {
                    // Unlocked first, so that the new file is the only one we hold.
                    drop(full);
                    self::open(&path)?
                }
                Err(why) => {
                    tracing::warn!(%why, path = %path.display(), "the audit file is full and cannot be renamed; it grows on");
                    full
                }
            },
            None => self::open(&path)?,
        };
        Ok(self.open.insert(open))
    }
}

impl Sink for FileSink {
    fn write(&mut self, lines: &[u8]) -> Written {
        let open = match self.ready(lines.len() as u64) {
            Ok(open) => open,
            Err(why) => return Written::nothing(why),
        };
        let Written { bytes, error } = write_through(&mut open.file, lines);
        if error.is_none() {
            open.length = open.length.saturating_add(bytes as u64);
            return Written { bytes, error };
        }
        // Cut the torn line off, so that every line in the file is whole. Where that fails, `open` ends it.
        let whole = whole_lines(lines, bytes);
        let cut = open.file.set_len(open.length.saturating_add(whole as u64));
        let bytes = if cut.is_ok() { whole } else { ended_lines(lines, bytes) };
        // The next write opens the file anew: that is how the sink recovers without a restart.
        self.open = None;
        Written { bytes, error }
    }

    fn is_swift(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.regular)
    }

    fn name(&self) -> String {
        self.directory.join(FILE).display().to_string()
    }
}

/// The standard output of the process.
pub(super) struct StdoutSink {
    out: File,
    torn: bool,
}

impl StdoutSink {
    /// Takes its own descriptor: the buffer of `std::io::Stdout` would hide how much was taken.
    pub(super) fn start() -> io::Result<StdoutSink> {
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(StdoutSink { out: out.into(), torn: false })
    }
}

impl Sink for StdoutSink {
    fn write(&mut self, lines: &[u8]) -> Written {
        if self.torn
            && let Some(error) = write_through(&mut self.out, b"\n").error
        {
            return Written::nothing(error);
        }
        let Written { bytes, error } = write_through(&mut self.out, lines);
        self.torn = whole_lines(lines, bytes) != bytes;
        Written { bytes: ended_lines(lines, bytes), error }
    }

    fn is_swift(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        "standard output".to_owned()
    }
}

/// Writes all of it, or says how much was taken before the first error.
pub(super) fn write_through(out: &mut dyn Write, bytes: &[u8]) -> Written {
    let mut taken = 0;
    while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(0) => return Written { bytes: taken, error: Some(io::ErrorKind::WriteZero.into()) },
            Ok(more) => taken += more,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
            Err(why) => return Written { bytes: taken, error: Some(why) },
        }
    }
    Written { bytes: taken, error: None }
}

/// How many of the first `taken` bytes are whole lines.
fn whole_lines(lines: &[u8], taken: usize) -> usize {
    let taken = lines.get(..taken).unwrap_or(lines);
    taken.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

/// The same when a torn line will be ended by a newline: one that lacks nothing else is whole then.
fn ended_lines(lines: &[u8], taken: usize) -> usize {
    match lines.get(taken) {
        Some(b'\n') => taken + 1,
        Some(_) | None => whole_lines(lines, taken),
    }
}

/// Opens the file for appending, for its owner only and for this process only, at the start of a line.
fn open(path: &Path) -> io::Result<Open> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    let (identity, seen) = ((metadata.dev(), metadata.ino()), Instant::now());
    // A device or a pipe has no mode of ours, no length, and nobody to share it with.
    if !metadata.is_file() {
        return Ok(Open { file, identity, regular: false, seen, length: 0 });
    }
    // A link would have the record written, and its mode set, where somebody else says.
    let named = fs::symlink_metadata(path)?;
    if (named.dev(), named.ino()) != identity {
        return Err(io::Error::other("it is a symbolic link"));
    }
    match file.try_lock() {
        Ok(()) => (),
        Err(TryLockError::WouldBlock) => return Err(io::Error::other("another process writes to it")),
        Err(TryLockError::Error(why)) => return Err(why),
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    let mut length = metadata.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    if last != *b"\n" {
        // A killed process or a full disk left half a line: what follows must not be glued to it.
        file.write_all(b"\n")?;
        length += 1;
    }
    Ok(Open { file, identity, regular: true, seen, length })
}

impl Open {
    /// Itself, when the path still leads to it. Looked at again only after a while: many lines come at a time.
    fn seen_at(mut self, path: &Path, look: Duration) -> Option<Open> {
        if self.seen.elapsed() < look {
            return Some(self);
        }
        self.seen = Instant::now();
        let there = fs::metadata(path).ok()?;
        ((there.dev(), there.ino()) == self.identity).then_some(self)
    }
}

/// Renames the full file to one that carries the time.
fn set_aside(directory: &Path) -> io::Result<()> {
    let now = super::line::Timestamp(OffsetDateTime::now_utc()).compact();
    let mut target = directory.join(format!("audit-{now}.jsonl"));
    let mut more = 1;
    // Two within the same millisecond; the lock on the file keeps other writers out of the directory.
    while target.try_exists()? {
        more += 1;
        target = directory.join(format!("audit-{now}-{more}.jsonl"));
    }
    fs::rename(directory.join(FILE), target)
}

#[cfg(test)]
mod tests;
