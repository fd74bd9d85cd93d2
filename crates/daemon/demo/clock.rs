//! The demo's clock: tools without side effects, one of them slow, with progress and cancellation.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::{
    server::{Fault, Request, Server, failed, text, told},
    stdio::{Pipe, Waited},
};

const DAY: i64 = 24 * 60 * 60;

/// The longest countdown.
const LONGEST: u64 = 60;

/// It has no state: the time is elsewhere.
pub(super) struct Clock;

impl Server for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn capabilities(&self) -> Value {
        json!({ "tools": {} })
    }

    fn instructions(&self) -> &'static str {
        "Tells the time, converts it, and counts down."
    }

    fn answer(&mut self, request: &Request<'_>, pipe: &mut Pipe) -> Result<Value, Fault> {
        match request.method {
            "tools/list" => Ok(tools()),
            "tools/call" => {
                let arguments = request.object("arguments");
                match request.text("name")? {
                    "now" => now(&arguments),
                    "convert" => convert(&arguments),
                    "countdown" => countdown(&arguments, request, pipe),
                    name => Err(Fault::params(format!("unknown tool `{name}`"))),
                }
            }
            method => Err(Fault::method(method)),
        }
    }
}

fn now(arguments: &Map<String, Value>) -> Result<Value, Fault> {
    let written = if arguments.contains_key("offset") { text(arguments, "offset")? } else { "+00:00" };
    let Some(minutes) = offset(written) else { return Ok(no_offset(written)) };
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let seconds = i64::try_from(since).unwrap_or(0);
    let time = format!("{}{written}", date_and_time(seconds + minutes * 60));
    Ok(told(&time, &json!({ "time": time })))
}

fn convert(arguments: &Map<String, Value>) -> Result<Value, Fault> {
    let (time, from, to) = (text(arguments, "time")?, text(arguments, "from")?, text(arguments, "to")?);
    let Some(minutes) = hours_and_minutes(time).filter(|&minutes| minutes < 24 * 60) else {
        return Ok(failed(format!("`{time}` is no time of day: write it like 14:30")));
    };
    let Some(from) = offset(from) else { return Ok(no_offset(from)) };
    let Some(to_minutes) = offset(to) else { return Ok(no_offset(to)) };
    let there = minutes - from + to_minutes;
    let (day, minute) = (there.div_euclid(24 * 60), there.rem_euclid(24 * 60));
    let time = format!("{:02}:{:02}", minute / 60, minute % 60);
    let when = match day {
        0 => "the same day",
        1.. => "the next day",
        _ => "the day before",
    };
    Ok(told(format!("{time}{to}, {when}"), &json!({ "time": time, "day": day })))
}

/// Counts seconds, telling each one to whoever asked for progress.
fn countdown(arguments: &Map<String, Value>, request: &Request<'_>, pipe: &mut Pipe) -> Result<Value, Fault> {
    let seconds = match arguments.get("seconds") {
        None => 3,
        Some(value) => value.as_u64().filter(|seconds| *seconds <= LONGEST).unwrap_or(LONGEST + 1),
    };
    if seconds > LONGEST {
        return Ok(failed(format!("`seconds` must be a whole number from 0 to {LONGEST}")));
    }
    for passed in 0..seconds {
        if let Some(token) = request.progress_token() {
            let left = seconds - passed;
            let progress = json!({ "progressToken": token, "progress": passed, "total": seconds, "message": format!("{left} …") });
            pipe.notify("notifications/progress", &progress);
        }
        if pipe.wait(Duration::from_secs(1), request.id) == Waited::Cancelled {
            return Err(Fault::Cancelled);
        }
    }
    Ok(told(format!("{seconds} seconds passed"), &json!({ "seconds": seconds })))
}

/// Minutes east of Greenwich: `Z`, `+02:00`, `-05:30`.
fn offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let minutes = hours_and_minutes(text.strip_prefix(['+', '-'])?)?;
    (minutes <= 14 * 60).then_some(sign * minutes)
}

fn hours_and_minutes(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| -> Option<i64> {
        text.parse().ok().filter(|_| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit()))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (minutes < 60).then_some(hours * 60 + minutes)
}

fn no_offset(text: &str) -> Value {
    failed(format!("`{text}` is no offset: write it like +02:00, -05:30 or Z"))
}

/// Seconds since 1970 as a date and a time of the calendar that everybody uses.
fn date_and_time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // Years begin in March here, so that the odd day is the last of a year (Howard Hinnant, `civil_from_days`).
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

fn tools() -> Value {
    let offset = json!({ "type": "string", "description": "Offset from UTC, like +02:00, -05:30 or Z" });
    let time =
        json!({ "type": "object", "properties": { "time": { "type": "string" } }, "required": ["time"] });
    let harmless = json!({ "readOnlyHint": true });
    json!({ "tools": [
        {
            "name": "now",
            "description": "Tell the time",
            "inputSchema": { "type": "object", "properties": { "offset": offset }, "additionalProperties": false },
            "outputSchema": time,
            "annotations": harmless,
        },
        {
            "name": "convert",
            "description": "Convert a time of day from one offset to another",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "time": { "type": "string", "description": "Hours and minutes, like 14:30" },
                    "from": offset,
                    "to": offset,
                },
                "required": ["time", "from", "to"],
                "additionalProperties": false,
            },
            "outputSchema": {
                "type": "object",
                "properties": { "time": { "type": "string" }, "day": { "type": "integer" } },
                "required": ["time", "day"],
            },
            "annotations": harmless,
        },
        {
            "name": "countdown",
            "description": "Count seconds down, with progress",
            "inputSchema": {
                "type": "object",
                "properties": { "seconds": { "type": "integer", "minimum": 0, "maximum": LONGEST, "default": 3 } },
                "additionalProperties": false,
            },
            "outputSchema": {
                "type": "object",
                "properties": { "seconds": { "type": "integer" } },
                "required": ["seconds"],
            },
            "annotations": harmless,
        },
    ] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{server::serve, stdio::tests::pipe};

    fn call(name: &str, arguments: Value) -> Vec<Value> {
        let params = json!({ "name": name, "arguments": arguments, "_meta": { "progressToken": "p" } });
        let call = json!({ "id": 7, "method": "tools/call", "params": params });
        let cancel = json!({ "method": "notifications/cancelled", "params": { "requestId": 7 } });
        let (mut pipe, written, open) = pipe(&[call, cancel]);
        drop(open);
        serve(&mut Clock, &mut pipe);
        written.messages()
    }

    #[test]
    fn seconds_become_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_785_196_800, "2026-07-28T00:00:00"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            assert_eq!(date_and_time(seconds), date);
        }
    }

    #[test]
    fn a_time_is_converted_across_midnight() {
        for (time, from, to, told) in [
            ("14:30", "+02:00", "-05:00", "07:30-05:00, the same day"),
            ("23:00", "Z", "+05:30", "04:30+05:30, the next day"),
            ("00:15", "+14:00", "Z", "10:15Z, the day before"),
        ] {
            let said = call("convert", json!({ "time": time, "from": from, "to": to }));
            assert_eq!(said[0]["result"]["content"][0]["text"], told);
        }
    }

    #[test]
    fn nonsense_is_told_to_the_model() {
        for (name, arguments) in [
            ("now", json!({ "offset": "CET" })),
            ("now", json!({ "offset": "+2:00" })),
            ("now", json!({ "offset": "+15:00" })),
            ("convert", json!({ "time": "24:00", "from": "Z", "to": "Z" })),
            ("convert", json!({ "time": "12:60", "from": "Z", "to": "Z" })),
            ("countdown", json!({ "seconds": 61 })),
            ("countdown", json!({ "seconds": -1 })),
        ] {
            assert_eq!(call(name, arguments.clone())[0]["result"]["isError"], true, "{name} {arguments}");
        }
    }

    #[test]
    fn a_countdown_tells_its_progress_and_can_be_cancelled() {
        let said = call("countdown", json!({ "seconds": 60 }));
        assert_eq!(said.len(), 1, "cancelled in its first second, so there is no answer: {said:?}");
        assert_eq!(
            said[0]["params"],
            json!({ "progressToken": "p", "progress": 0, "total": 60, "message": "60 …" })
        );
        let said = call("countdown", json!({ "seconds": 0 }));
        assert_eq!(said[0]["result"]["structuredContent"], json!({ "seconds": 0 }));
    }

    #[test]
    fn now_is_a_date_with_its_offset() {
        let said = call("now", json!({ "offset": "-03:30" }));
        let time = said[0]["result"]["structuredContent"]["time"].as_str().unwrap();
        assert!(time.len() == 25 && time.starts_with("20") && time.ends_with("-03:30"), "{time}");
    }
}
