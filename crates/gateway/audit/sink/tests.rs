//! Tests of the file sink, each in a directory of its own.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::Duration,
};

use super::{FILE, FILE_MAX, FileSink, Sink as _, ended_lines, whole_lines, write_through};

fn read(directory: &Path) -> String {
    fs::read_to_string(directory.join(FILE)).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Takes what its plan says, call by call.
struct Script(Vec<io::Result<usize>>);

impl Write for Script {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        self.0.remove(0)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_short_write_goes_on_and_an_error_says_how_far_it_came() {
    let interrupted = || Err(io::ErrorKind::Interrupted.into());
    let full = || Err(io::ErrorKind::StorageFull.into());
    for (plan, bytes, fails) in [
        (vec![Ok(6)], 6, false),
        (vec![Ok(1), interrupted(), Ok(2), Ok(3)], 6, false),
        (vec![Ok(4), full()], 4, true),
        (vec![full()], 0, true),
        (vec![Ok(4), Ok(0)], 4, true),
    ] {
        let written = write_through(&mut Script(plan), b"abcde\n");
        assert_eq!((written.bytes, written.error.is_some()), (bytes, fails));
    }
}

#[test]
fn only_whole_lines_count_as_taken() {
    for (taken, whole, ended) in [(0, 0, 0), (1, 0, 0), (2, 0, 3), (3, 3, 3), (4, 3, 3), (5, 3, 6), (6, 6, 6)]
    {
        assert_eq!(whole_lines(b"ab\ncd\n", taken), whole, "{taken}");
        assert_eq!(ended_lines(b"ab\ncd\n", taken), ended, "{taken}");
    }
}

#[test]
fn only_the_owner_can_read_the_record() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("a/audit");
    FileSink::start(&directory).unwrap();
    assert_eq!((mode(&directory), mode(&directory.join(FILE))), (0o700, 0o600));
    fs::set_permissions(directory.join(FILE), fs::Permissions::from_mode(0o644)).unwrap();
    FileSink::start(&directory).unwrap();
    assert_eq!(mode(&directory.join(FILE)), 0o600);
}

#[test]
fn a_torn_line_is_ended_before_the_next_one() {
    for (found, expected) in [("", "x\n"), ("a\n", "a\nx\n"), ("a\nb", "a\nb\nx\n"), ("b", "b\nx\n")] {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(FILE), found).unwrap();
        let mut sink = FileSink::start(place.path()).unwrap();
        assert!(sink.write(b"x\n").error.is_none());
        assert_eq!(read(place.path()), expected);
    }
}

#[test]
fn two_processes_do_not_write_to_one_file() {
    let place = tempfile::tempdir().unwrap();
    let first = FileSink::start(place.path()).unwrap();
    let error = FileSink::start(place.path()).err().unwrap().to_string();
    assert!(error.contains(&place.path().display().to_string()), "{error}");
    assert!(error.contains("another process writes to it"), "{error}");
    drop(first);
    FileSink::start(place.path()).unwrap();
}

#[test]
fn a_file_in_the_place_of_the_directory_is_an_error_with_its_name() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let error = FileSink::start(&file).err().unwrap().to_string();
    assert!(error.contains(&format!("`{}`", file.display())), "{error}");
}

#[test]
fn a_full_file_is_set_aside_and_nothing_is_lost() {
    let place = tempfile::tempdir().unwrap();
    let mut sink = FileSink::start_with(place.path(), 20, Duration::ZERO).unwrap();
    let lines: Vec<String> = (0..50).map(|i| format!("line {i}\n")).collect();
    for line in &lines {
        assert!(sink.write(line.as_bytes()).error.is_none());
    }
    // Longer than a whole file: it gets one of its own.
    let long = format!("{}\n", "x".repeat(30));
    assert!(sink.write(long.as_bytes()).error.is_none());

    let files: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 20, "{files:?}");
    let mut found: Vec<String> = Vec::new();
    for file in &files {
        assert_eq!(mode(file), 0o600);
        let text = fs::read_to_string(file).unwrap();
        assert!(text.len() <= 20 || text == long, "{text:?}");
        found.extend(text.split_inclusive('\n').map(str::to_owned));
    }
    let mut expected = lines;
    expected.push(long);
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_file_that_was_moved_away_is_made_anew() {
    let place = tempfile::tempdir().unwrap();
    let mut sink = FileSink::start_with(place.path(), FILE_MAX, Duration::ZERO).unwrap();
    assert!(sink.write(b"a\n").error.is_none());
    fs::rename(place.path().join(FILE), place.path().join("theirs")).unwrap();
    assert!(sink.write(b"b\n").error.is_none());
    assert_eq!(read(place.path()), "b\n");
    assert_eq!(fs::read_to_string(place.path().join("theirs")).unwrap(), "a\n");
}

#[test]
fn a_directory_that_went_away_is_missed_and_found_again() {
    let place = tempfile::tempdir().unwrap();
    let (here, away) = (place.path().join("audit"), place.path().join("away"));
    let mut sink = FileSink::start_with(&here, FILE_MAX, Duration::ZERO).unwrap();
    assert!(sink.write(b"a\n").error.is_none());
    fs::rename(&here, &away).unwrap();
    assert!(sink.write(b"b\n").error.is_some());
    fs::write(&here, "a file in its place").unwrap();
    assert!(sink.write(b"c\n").error.is_some());
    fs::remove_file(&here).unwrap();
    fs::rename(&away, &here).unwrap();
    assert!(sink.write(b"d\n").error.is_none());
    assert_eq!(read(&here), "a\nd\n");
}

#[test]
fn a_full_device_takes_nothing_and_recovers() {
    let place = tempfile::tempdir().unwrap();
    symlink("/dev/full", place.path().join(FILE)).unwrap();
    let mut sink = FileSink::start(place.path()).unwrap();
    for _ in 0..2 {
        let written = sink.write(b"a\n");
        assert_eq!(
            (written.bytes, written.error.map(|why| why.kind())),
            (0, Some(io::ErrorKind::StorageFull))
        );
    }
    fs::remove_file(place.path().join(FILE)).unwrap();
    assert!(sink.write(b"b\n").error.is_none());
    assert_eq!(read(place.path()), "b\n");
}
