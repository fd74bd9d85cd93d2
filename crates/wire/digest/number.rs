//! One spelling for every decimal value, however it was written.

/// Appends the canonical spelling of a JSON number. Numbers that a binary fraction holds exactly come out as
/// RFC 8785 writes them; the others keep every digit.
pub(crate) fn write_canonical(raw: &str, out: &mut String) {
    // Most numbers are short integers, and those have but one spelling of their own kind.
    if raw.len() <= 21 && raw != "-0" && !raw.contains(['.', 'e', 'E']) {
        out.push_str(raw);
        return;
    }
    let (sign, unsigned) = raw.strip_prefix('-').map_or(("", raw), |rest| ("-", rest));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    let leading = digits.len() - significant.len();
    let significant = significant.trim_end_matches('0');
    if significant.is_empty() {
        out.push('0');
        return;
    }
    out.push_str(sign);
    // The value is 0.SIGNIFICANT times ten to the power of `point`.
    let point = whole.len().cast_signed() - leading.cast_signed();
    match exponent.parse::<i64>().ok().and_then(|exponent| exponent.checked_add(i64::try_from(point).ok()?)) {
        Some(point) => write_value(significant, point, out),
        // An exponent beyond 64 bits is no number anybody means: it differs from all others, also from its
        // own other spellings.
        None => out.extend([significant, "p", &point.to_string(), "e", exponent]),
    }
}

/// The form that ECMAScript gives a number of these digits.
fn write_value(digits: &str, point: i64, out: &mut String) {
    let count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or_default());
    if (count..=21).contains(&point) {
        out.extend([digits, &zeros(point - count)]);
    } else if (1..=21).contains(&point) {
        let (whole, fraction) =
            digits.split_at_checked(usize::try_from(point).unwrap_or_default()).unwrap_or_default();
        out.extend([whole, ".", fraction]);
    } else if (-5..=0).contains(&point) {
        out.extend(["0.", &zeros(-point), digits]);
    } else {
        let (first, rest) = digits.split_at_checked(1).unwrap_or_default();
        let dot = if rest.is_empty() { "" } else { "." };
        let plus = if point > 0 { "+" } else { "" };
        out.extend([first, dot, rest, "e", plus, &(point - 1).to_string()]);
    }
}
