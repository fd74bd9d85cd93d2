//! What the kernel knows about this process; nothing where there is no `/proc`.

use std::fs;

/// Clock ticks a second in `/proc/self/stat`: a constant of the interface between Linux and programs.
const TICKS: f64 = 100.0;

/// Resident memory in bytes.
pub(super) fn resident_memory() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes: i64 = number_after(&status, "VmRSS:")?;
    kilobytes.checked_mul(1024)
}

/// Open file descriptors, without the one that counts them.
pub(super) fn open_files() -> Option<i64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.count();
    i64::try_from(entries.saturating_sub(1)).ok()
}

/// When the process started, in seconds since the Unix epoch.
pub(super) fn started() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let boot: f64 = number_after(&fs::read_to_string("/proc/stat").ok()?, "btime")?;
    Some(boot + start_ticks(&stat)? / TICKS)
}

/// Field 22. The second field is the program's name in parentheses and may hold anything, so count from its end.
fn start_ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

fn number_after<N: std::str::FromStr>(text: &str, word: &str) -> Option<N> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{number_after, start_ticks};

    #[test]
    fn the_start_is_found_behind_any_program_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        for name in ["portcullis", "a b", "x) S (y"] {
            assert_eq!(start_ticks(&format!("1 ({name}) {rest}")), Some(4711.0), "{name}");
        }
        assert_eq!(start_ticks("1 (cut"), None);
    }

    #[test]
    fn a_missing_or_odd_line_is_no_number() {
        assert_eq!(number_after::<i64>("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12));
        assert_eq!(number_after::<i64>("VmRSS:\t  many\n", "VmRSS:"), None);
        assert_eq!(number_after::<i64>("", "VmRSS:"), None);
    }
}
