//! Filters: from written patterns to a filter that is never open by mistake.

use super::Checker;
use crate::filter::{Filter, Pattern};
use crate::problem::Place;
use crate::raw;
use crate::reader::At;
use crate::words::{Expression, Glob};

impl Checker<'_> {
    /// The filter. `ids` are the upstreams it is for, to notice exposed names in it.
    pub(super) fn filter(&mut self, raw: &raw::Selection, ids: &[&str]) -> Filter {
        self.written_but_empty(raw.include.as_ref().map(|list| (&list.place, list.value.len())));
        self.written_but_empty(raw.include_regex.as_ref().map(|list| (&list.place, list.value.len())));
        let written = raw.include_regex.iter().chain(&raw.exclude_regex).flat_map(|list| &list.value);
        written.for_each(|expression| self.recursion(&expression.value.0, &expression.place));
        let mut admit = globs(raw.include.clone().map(|list| list.value).unwrap_or_default());
        admit.extend(expressions(raw.include_regex.clone().map(|list| list.value).unwrap_or_default()));
        let mut deny = globs(raw.exclude());
        deny.extend(expressions(raw.exclude_regex()));
        for (pattern, place) in admit.iter().chain(&deny) {
            self.exposed_name(pattern, place, ids);
        }
        let patterns = |list: Vec<(Pattern, Place)>| list.into_iter().map(|(pattern, _)| pattern).collect();
        Filter::new(patterns(admit), patterns(deny))
    }

    /// An empty include could mean everything or nothing, so it means neither.
    fn written_but_empty(&mut self, list: Option<(&Place, usize)>) {
        if let Some((place, 0)) = list {
            let hint = "remove it to show everything; `exclude: [\"*\"]` hides everything";
            self.error(place, "an include without patterns".to_owned(), hint);
        }
    }

    /// `(?R)` is about line ends here, and recursion elsewhere.
    fn recursion(&mut self, pattern: &Pattern, place: &Place) {
        let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '-';
        let mut groups = pattern.text.split("(?").skip(1);
        if groups.any(|group| group.trim_start_matches(is_letter).starts_with('R')) {
            let message = format!("the `R` in `{}` is a flag about line ends, not recursion", pattern.text);
            self.warn(place, message, "remove it: names have no line ends");
        }
    }

    /// A pattern with the exposed name matches nothing, since filters see native names (bug B25).
    fn exposed_name(&mut self, pattern: &Pattern, place: &Place, ids: &[&str]) {
        let native = ids.iter().find_map(|id| pattern.text.strip_prefix(id)?.strip_prefix("__"));
        if let Some(native) = native {
            let message = format!("`{}` is an exposed name, and a filter sees native names", pattern.text);
            self.warn(place, message, &format!("`{native}` is probably meant"));
        }
    }
}

fn globs(list: Vec<At<Glob>>) -> Vec<(Pattern, Place)> {
    list.into_iter().map(|At { value, place }| placed(value.0, place)).collect()
}

fn expressions(list: Vec<At<Expression>>) -> Vec<(Pattern, Place)> {
    list.into_iter().map(|At { value, place }| placed(value.0, place)).collect()
}

fn placed(mut pattern: Pattern, place: Place) -> (Pattern, Place) {
    pattern.line = place.span.line;
    (pattern, place)
}
