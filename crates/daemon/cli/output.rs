//! Printing: text from elsewhere is made harmless first, and a reader that went away is no error.

use std::io;

/// Prints lines to the standard output.
pub(crate) fn print(text: &str) {
    write(io::stdout().lock(), text);
}

/// Prints lines to the standard error.
pub(crate) fn complain(text: &str) {
    if !text.is_empty() {
        write(io::stderr().lock(), text);
    }
}

/// Whoever closed the other end, `head` for one, has seen enough: what cannot be written is nobody's loss.
fn write(mut out: impl io::Write, text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(end.as_bytes()))
        .and_then(|()| out.flush());
}

/// Text of an upstream as a terminal may show it: no control character but line ends and tabs, and nothing that
/// hides or reorders what it stands beside.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if deceives(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The same for raw JSON, as escapes of JSON. Such characters stand in strings only, so the value stays the same.
pub(crate) fn harmless_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || !deceives(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            shown.push_str(&format!("\\u{unit:04x}"));
        }
    }
    shown
}

fn deceives(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{feff}'
        )
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// The first line of a text, cut to a width.
pub(crate) fn first_line(text: &str, width: usize) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    if line.chars().count() <= width {
        return harmless(line);
    }
    let cut: String = line.chars().take(width.saturating_sub(1)).collect();
    harmless(&cut) + "…"
}

/// Rows under headings, each column as wide as its widest cell.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let headings = headings.iter().map(|&heading| heading.to_owned()).collect();
    for row in std::iter::once(&headings).chain(rows) {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_take_over_a_terminal_is_shown_as_what_it_is() {
        assert_eq!(harmless("a\tb\nc"), "a\tb\nc");
        assert_eq!(harmless("\u{1b}[2Jhi\r\u{9b}1m\u{7f}"), "\\u{1b}[2Jhi\\u{d}\\u{9b}1m\\u{7f}");
        assert_eq!(harmless("safe\u{202e}lave"), "safe\\u{202e}lave");
        assert_eq!(harmless("käse 👩‍💻"), "käse 👩‍💻");
    }

    #[test]
    fn json_keeps_its_value() {
        let text = "{\"a\":\"\u{9b}\u{202e}\u{e0041}é\"}";
        let shown = harmless_json(text);
        assert_eq!(shown, "{\"a\":\"\\u009b\\u202e\\udb40\\udc41é\"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(text));
    }

    #[test]
    fn a_table_lines_up() {
        let rows = [vec!["a".to_owned(), "long cell".to_owned()], vec!["bcd".to_owned(), String::new()]];
        assert_eq!(table(&["X", "WORD"], &rows), "X    WORD\na    long cell\nbcd\n");
        assert_eq!(first_line("\n  one two three\nfour", 7), "one tw…");
        assert_eq!(first_line("", 7), "");
    }
}
