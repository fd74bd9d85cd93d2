//! The canonical text of a value by RFC 8785, but for numbers, which count by their exact decimal value.

use crate::oracle::{Kind, Node};

/// Keys in the order of their UTF-16 code units, the shortest escapes, no white space.
pub(crate) fn written(node: &Node<'_>) -> String {
    match &node.kind {
        Kind::Word => node.raw.to_owned(),
        Kind::Number => number(node.raw),
        Kind::Text(text) => quoted(text),
        Kind::List(list) => format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(",")),
        Kind::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| key.encode_utf16().collect::<Vec<_>>());
            let members = sorted.iter().map(|(key, value)| format!("{}:{}", quoted(key), written(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
    }
}

/// The same value in another spelling: members in reverse, every letter escaped, numbers with an exponent.
pub(crate) fn respelled(node: &Node<'_>) -> String {
    match &node.kind {
        Kind::Word => format!(" {}\t", node.raw),
        Kind::Number => match node.raw.contains(['e', 'E', '.']) {
            true => node.raw.replace('e', "E"),
            false => format!("{}.00e+00", node.raw),
        },
        Kind::Text(text) => escaped(text),
        Kind::List(list) => format!("[ {}\n]", list.iter().map(respelled).collect::<Vec<_>>().join(" ,\r")),
        Kind::Object(members) => {
            let members = members.iter().rev();
            let members = members.map(|(key, value)| format!("{} :\n{}", escaped(key), respelled(value)));
            format!("{{\t{}}} ", members.collect::<Vec<_>>().join(" , "))
        }
    }
}

fn quoted(text: &str) -> String {
    // serde_json writes the escapes of RFC 8785.
    serde_json::to_string(text).unwrap_or_default()
}

fn escaped(text: &str) -> String {
    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
    format!("\"{}\"", units.collect::<String>())
}

/// Sign, digits without zeros at either end, and the power of ten of the last one. The exponent may be of any size.
fn number(raw: &str) -> String {
    let (sign, unsigned) = raw.strip_prefix('-').map_or(("", raw), |rest| ("-", rest));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let trimmed = digits.trim_start_matches('0').trim_end_matches('0');
    if trimmed.is_empty() {
        return "0".to_owned();
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    match exponent.parse::<i64>() {
        Ok(exponent) if exponent.unsigned_abs() < 1 << 60 => {
            let power = exponent - i64::try_from(fraction.len()).unwrap() + i64::try_from(zeros).unwrap();
            format!("{sign}{trimmed}e{power}")
        }
        // Nobody means these; they are not compared.
        _ => UNCOMPARED.to_owned(),
    }
}

/// Stands for a number with an exponent beyond what anybody means.
pub(crate) const UNCOMPARED: &str = "<beyond>";
