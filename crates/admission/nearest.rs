//! "Did you mean": the name that was probably meant.

/// The name nearest to what is written, when it is near.
pub(crate) fn nearest<'n>(written: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let far = 1 + written.chars().count() / 4;
    let lower = |name: &str| name.to_lowercase();
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&lower(written), &lower(name)), name))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
