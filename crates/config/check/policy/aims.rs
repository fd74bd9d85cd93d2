//! What the patterns of a rule aim at: one that can match nothing is a typing mistake, and its rule is not what it seems.

use crate::check::Checker;
use crate::model::{Upstream, VirtualServer};
use crate::problem::Problem;
use crate::raw::policy::{Rule, Test};
use crate::reader::{At, nearest};
use crate::words::Glob;

type Globs = Option<At<Vec<At<Glob>>>>;

impl Checker<'_> {
    /// Warns of patterns that match nothing of the tenant's; a URI that no rule ever sees is an error.
    pub(super) fn aims(&mut self, rule: &Rule, upstreams: &[Upstream], servers: &[VirtualServer]) {
        let ids: Vec<&str> = upstreams.iter().map(|upstream| &*upstream.id).collect();
        let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
        self.known(&rule.upstreams, &ids, "upstream");
        self.known(&rule.servers, &names, "virtual server");
        for glob in each(&rule.tools).chain(each(&rule.prompts)) {
            self.of_upstream(rule, glob, &ids);
        }
        for glob in each(&rule.resources) {
            self.uris(glob, &ids);
        }
    }

    /// Warns of a test at a place that does not exist.
    pub(super) fn stands(&mut self, test: &Test, upstreams: &[Upstream], servers: &[VirtualServer]) {
        let ids: Vec<&str> = upstreams.iter().map(|upstream| &*upstream.id).collect();
        let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
        let upstream = test.upstream.as_ref().map(|At { value, place }| (value.0.as_str(), place));
        let server = test.server.as_ref().map(|At { value, place }| (value.0.as_str(), place));
        for (written, known, what) in [(upstream, &ids, "upstream"), (server, &names, "virtual server")] {
            if let Some((name, place)) = written.filter(|(name, _)| !known.contains(name)) {
                self.warn(place, format!("there is no {what} `{name}`"), &among(name, known, what));
            }
        }
    }

    fn known(&mut self, globs: &Globs, known: &[&str], what: &str) {
        for glob in each(globs) {
            let text = &glob.value.0.text;
            if known.iter().any(|known| glob.value.0.matches(known)) {
                continue;
            }
            self.warn(&glob.place, format!("`{text}` matches no {what}"), &among(text, known, what));
        }
    }

    /// A tool or prompt is `UPSTREAM__NAME`: of an upstream that exists, and that the rule is about.
    fn of_upstream(&mut self, rule: &Rule, glob: &At<Glob>, ids: &[&str]) {
        let text = glob.value.0.text.as_str();
        let (id, separated) = text.split_once("__").map_or((text, false), |(id, _)| (id, true));
        if id.contains(['*', '?']) {
            return;
        }
        if !ids.contains(&id) {
            let message = format!("`{text}` matches nothing: there is no upstream `{id}`");
            self.warn(&glob.place, message, &among(id, ids, "upstream"));
        } else if !separated {
            let hint = format!("write `{id}__*`");
            self.warn(&glob.place, format!("`{text}` matches nothing: names are `UPSTREAM__NAME`"), &hint);
        } else if rule.upstreams.is_some() && !each(&rule.upstreams).any(|other| other.value.0.matches(id)) {
            let message = format!("`{text}` matches nothing: the rule is not about the upstream `{id}`");
            self.warn(&glob.place, message, "remove `upstreams`, or add the id to it");
        }
    }

    /// Rules know a resource by the URI that its server writes, in its plainest form.
    fn uris(&mut self, glob: &At<Glob>, ids: &[&str]) {
        let text = glob.value.0.text.as_str();
        if let Err(flaw) = self.files.resources(text) {
            let problem = Problem::error(&glob.place, format!("`{text}` {}", flaw.why));
            self.problems.push(problem.hint(flaw.hint.unwrap_or_default()));
        }
        let exposed = text.split_once('+').filter(|(id, uri)| ids.contains(id) && uri.contains(':'));
        if let Some((id, uri)) = exposed {
            let hint = format!("write `{uri}` here, and `upstreams: [{id}]` beside it");
            self.warn(
                &glob.place,
                format!("`{text}` is how clients see it; rules know the URI of the server"),
                &hint,
            );
        }
    }
}

/// The one that was meant, or those that there are.
fn among(written: &str, known: &[&str], what: &str) -> String {
    match nearest(written, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the {what}s of this tenant: {}", known.join(", ")),
    }
}

fn each(globs: &Globs) -> impl Iterator<Item = &At<Glob>> {
    globs.iter().flat_map(|list| &list.value)
}
