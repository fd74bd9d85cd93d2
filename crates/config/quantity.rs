//! Durations, sizes and counts, each with its bounds in the type.

use std::time::Duration;

use serde_json::{Value, json};

use crate::form::Form;
use crate::schema::reference;
use crate::word::{Mistake, Word};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Units of time in milliseconds, the greatest first.
const TIMES: [(&str, u64); 5] = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];
/// Units of size in bytes, the greatest first.
const SIZES: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// `1h30m`, between two bounds in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time<const MIN: u64, const MAX: u64>(pub(crate) Duration);

impl<const MIN: u64, const MAX: u64> Time<MIN, MAX> {
    pub(crate) const fn seconds(seconds: u64) -> Self {
        Time(Duration::from_secs(seconds))
    }
}

impl<const MIN: u64, const MAX: u64> Word for Time<MIN, MAX> {
    fn form() -> Form {
        let words = format!("duration, {} to {}", show_time(MIN), show_time(MAX));
        Form::pattern(&words, "([0-9]+(d|h|ms|m|s))+")
    }

    fn parse(text: &str) -> Result<Self, Mistake> {
        let milliseconds = parse_time(text)?;
        if !(MIN..=MAX).contains(&milliseconds) {
            let hint = format!("between {} and {}", show_time(MIN), show_time(MAX));
            return Err(Mistake::new("is out of range").hint(hint));
        }
        Ok(Time(Duration::from_millis(milliseconds)))
    }

    fn sample(&self) -> Value {
        json!(show_time(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)))
    }
}

fn parse_time(text: &str) -> Result<u64, Mistake> {
    let wrong = || Mistake::new("is no duration").hint("write it like `250ms`, `30s`, `15m` or `1h30m`");
    if text.parse::<f64>().is_ok() {
        return Err(Mistake::new("has no unit").hint(format!("write `{text}s` if seconds are meant")));
    }
    let mut total: u64 = 0;
    let mut smallest = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let unit_len = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let (_, unit) = TIMES.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        if *unit >= smallest {
            return Err(wrong());
        }
        smallest = *unit;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        total = number.checked_mul(*unit).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

fn show_time(milliseconds: u64) -> String {
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    let mut left = milliseconds;
    let mut shown = String::new();
    for (name, unit) in TIMES {
        // `24h` reads better than `1d` where a day is the limit of something.
        if unit == DAY && milliseconds <= 2 * DAY {
            continue;
        }
        let count = left / unit;
        left %= unit;
        if count > 0 {
            shown.push_str(&format!("{count}{name}"));
        }
    }
    shown
}

/// `4MiB`, between two bounds in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size<const MIN: usize, const MAX: usize>(pub(crate) usize);

impl<const MIN: usize, const MAX: usize> Word for Size<MIN, MAX> {
    const PLAIN: &'static [&'static str] = &["text", "a number"];

    fn form() -> Form {
        let words = format!("size, {} to {}", show_size(MIN), show_size(MAX));
        let schema = json!({ "anyOf": [
            { "type": "integer", "minimum": MIN, "maximum": MAX },
            { "type": "string", "pattern": r"^[0-9]+([KMG]iB)?$|\$\{" },
        ] });
        Form::Scalar { words, schema }
    }

    fn parse(text: &str) -> Result<Self, Mistake> {
        let bytes = parse_size(text)?;
        if !(MIN..=MAX).contains(&bytes) {
            let hint = format!("between {} and {}", show_size(MIN), show_size(MAX));
            return Err(Mistake::new("is out of range").hint(hint));
        }
        Ok(Size(bytes))
    }

    fn sample(&self) -> Value {
        json!(show_size(self.0))
    }
}

pub(crate) fn parse_size(text: &str) -> Result<usize, Mistake> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let known = SIZES.iter().find(|(name, _)| *name == unit);
    let bytes = known.and_then(|(_, unit)| number.parse::<usize>().ok()?.checked_mul(*unit));
    bytes.ok_or_else(|| {
        let meant = match unit.trim().bytes().next().map(|byte| byte.to_ascii_lowercase()) {
            Some(b'k') => "KiB",
            Some(b'g') => "GiB",
            _ => "MiB",
        };
        let number = if number.is_empty() { "4" } else { number };
        Mistake::new("is no size").hint(format!("write it like `{number}{meant}`, or as a number of bytes"))
    })
}

fn show_size(bytes: usize) -> String {
    let unit = SIZES.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// A whole number between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count<const MIN: usize, const MAX: usize>(pub(crate) usize);

impl<const MIN: usize, const MAX: usize> Word for Count<MIN, MAX> {
    const PLAIN: &'static [&'static str] = &["a number"];
    const QUOTED: bool = false;

    fn form() -> Form {
        let schema = json!({ "anyOf": [
            { "type": "integer", "minimum": MIN, "maximum": MAX },
            reference(),
        ] });
        Form::Scalar { words: format!("number, {MIN} to {MAX}"), schema }
    }

    fn parse(text: &str) -> Result<Self, Mistake> {
        let range = format!("between {MIN} and {MAX}");
        let whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<usize>() {
            Ok(number) if whole && (MIN..=MAX).contains(&number) => Ok(Count(number)),
            Ok(_) | Err(_) if text.parse::<f64>().is_ok() => Err(Mistake::new("is out of range").hint(range)),
            Ok(_) | Err(_) => Err(Mistake::new("is no whole number")),
        }
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}
