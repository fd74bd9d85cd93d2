//! The rules of a tenant: every file of `policies`, read and checked together.

use std::path::PathBuf;
use std::sync::Arc;

use super::Checker;
use super::process::tidy;
use crate::filter::Pattern;
use crate::model::{
    Approvers, Asked, Effect, Policy, PolicyRule, PolicyTest, Principals, Subject, TestFacts, TestPrincipal,
    Upstream, VirtualServer,
};
use crate::problem::{Place, Problem};
use crate::raw;
use crate::raw::policy::{PolicyFile, Rule, Test};
use crate::reader::At;
use crate::section::Map;
use crate::words::{ClaimName, FilePath, Glob};

mod aims;

impl Checker<'_> {
    /// The rules; `None` when the tenant has none.
    pub(super) fn policy(
        &mut self,
        raw: &At<raw::Tenant>,
        upstreams: &[Upstream],
        servers: &[VirtualServer],
    ) -> Option<Policy> {
        let written = raw.policies.as_ref()?;
        if written.value.is_empty() {
            let hint = "name a file, or remove the key: then everything that is shown may be called";
            self.error(&written.place, "`policies` names no file".to_owned(), hint);
        }
        let files: Vec<At<PolicyFile>> =
            written.value.iter().filter_map(|path| self.policy_file(path)).collect();
        self.rules_once(&files);
        let defaults = files.iter().map(|file| file.default().0);
        let default = if defaults.clone().any(|default| default == Effect::Deny) {
            Effect::Deny
        } else {
            Effect::Allow
        };
        let mut policy = Policy { default, rules: Vec::new(), tests: Vec::new() };
        for file in &files {
            let rules = file.rules.iter().flat_map(|rules| &rules.value);
            for rule in rules {
                self.aims(rule, upstreams, servers);
                policy.rules.extend(self.rule(rule));
            }
            for test in &file.tests() {
                self.stands(test, upstreams, servers);
                policy.tests.extend(self.policy_test(test));
            }
        }
        Some(policy)
    }

    fn policy_file(&mut self, path: &At<FilePath>) -> Option<At<PolicyFile>> {
        // Rules lie beside `tenants/`, and tenants share them: from where a tenant file lies would be another folder.
        let file: PathBuf = tidy(&self.folder.join(&path.value.0));
        let elsewhere = (raw::Tenant::KEYS, "a tenant file");
        let draft = match self.files.read(&file) {
            Ok(_) => self.read::<PolicyFile>(&file, elsewhere)?,
            Err(error) => {
                let message = format!("the policy file `{}` cannot be read: {error}", path.place.written());
                self.error(&path.place, message, "it is relative to the main file");
                return None;
            }
        };
        self.policies.push(file);
        let raw = draft.raw?;
        if let Some(At { place, .. }) = raw.rules.as_ref().filter(|rules| rules.value.is_empty()) {
            let hint = "write a rule; `rules: [{ name: none, effect: deny }]` denies everything";
            self.error(place, "a policy without rules".to_owned(), hint);
        }
        if let Some(At { place, .. }) =
            raw.default.as_ref().filter(|default| default.value.0 == Effect::Approve)
        {
            let hint = "write `allow` or `deny`, and a rule with `effect: approve` for what a person decides";
            self.error(place, "a default is `allow` or `deny`".to_owned(), hint);
        }
        Some(raw)
    }

    fn rules_once(&mut self, files: &[At<PolicyFile>]) {
        let rules = files.iter().flat_map(|file| &file.rules).flat_map(|rules| &rules.value);
        let names: Vec<_> = rules.filter_map(|rule| rule.name.as_ref()).collect();
        for (position, name) in names.iter().enumerate() {
            let earlier = names.iter().take(position).find(|earlier| earlier.value.0 == name.value.0);
            if let Some(earlier) = earlier {
                let Place { source, span, .. } = &earlier.place;
                let hint =
                    format!("it is the name of a rule in {}:{} already", source.path.display(), span.line);
                self.error(&name.place, format!("duplicate rule `{}`", name.value.0), &hint);
            }
        }
    }

    fn rule(&mut self, raw: &At<Rule>) -> Option<PolicyRule> {
        if let Some(when) = &raw.when {
            self.condition(when, &raw.subjects());
        }
        if let (Some(approvers), Some(effect)) = (&raw.approvers, &raw.effect)
            && effect.value.0 != Effect::Approve
        {
            let hint = "write `effect: approve`, or remove the key";
            self.error(&approvers.place, "`approvers` of a rule that asks nobody".to_owned(), hint);
        }
        for (key, empty) in raw.empty_lists() {
            let hint = "remove the key, or write what the rule is about: an empty list matches nothing";
            self.error(empty, format!("`{key}` without anything in it"), hint);
        }
        let principals = raw.principals();
        Some(PolicyRule {
            name: Arc::from(raw.name.as_ref()?.value.0.as_str()),
            principals: Principals {
                claims: claims(principals.claims()),
                ids: patterns(principals.ids),
                groups: patterns(principals.groups),
                scopes: patterns(principals.scopes),
                issuers: patterns(principals.issuers),
            },
            upstreams: patterns(raw.upstreams.clone()),
            servers: patterns(raw.servers.clone()),
            methods: raw.methods.as_ref().map(|list| list.value.iter().map(|deed| deed.value.0).collect()),
            tools: patterns(raw.tools.clone()),
            prompts: patterns(raw.prompts.clone()),
            resources: patterns(raw.resources.clone()),
            asks: raw.asks.as_ref().map(|list| list.value.iter().map(|asks| asks.value.0).collect()),
            when: raw.when.as_ref().map(|when| when.value.0.clone()),
            effect: raw.effect.as_ref()?.value.0,
            mode: raw.mode().0,
            approvers: raw.approvers.as_ref().map(|approvers| Approvers {
                ids: patterns(approvers.value.ids.clone()),
                groups: patterns(approvers.value.groups.clone()),
            }),
            message: raw.message.as_ref().map(|message| Arc::from(message.value.0.as_str())),
        })
    }

    /// Whether a condition compiles; each flaw is told where it is.
    fn condition(&mut self, when: &At<crate::words::Condition>, about: &[Subject]) {
        let Err(flaws) = self.files.condition(&when.value.0, about) else { return };
        for flaw in flaws {
            let place = match flaw.at {
                Some((at, len)) => when.place.inside(&when.value.0, at, len),
                None => when.place.clone(),
            };
            let problem = Problem::error(&place, format!("the condition {}", flaw.why));
            self.problems.push(match flaw.hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            });
        }
    }

    fn policy_test(&mut self, raw: &At<Test>) -> Option<PolicyTest> {
        let asked = match (&raw.call, &raw.read, &raw.prompt) {
            (Some(call), None, None) => Asked::Tool(call.value.0.clone()),
            (None, Some(read), None) => Asked::Resource(read.value.0.clone()),
            (None, None, Some(prompt)) => Asked::Prompt(prompt.value.0.clone()),
            (None, None, None) | (Some(_), _, _) | (_, Some(_), _) => {
                let hint = "write one of `call`, `read` and `prompt`";
                self.error(&raw.place, "a test asks for one thing".to_owned(), hint);
                return None;
            }
        };
        let (principal, tool) = (raw.principal(), raw.tool());
        let texts =
            |list: Vec<At<crate::words::Message>>| list.into_iter().map(|text| text.value.0).collect();
        Some(PolicyTest {
            place: format!("{}:{}", raw.place.source.path.display(), raw.place.span.line),
            principal: TestPrincipal {
                id: principal.id().0,
                groups: texts(principal.groups()),
                scopes: texts(principal.scopes()),
                claims: principal.claims.map(|claims| claims.value.0),
            },
            asked,
            args: raw.args().0,
            server: raw.server().0,
            upstream: raw.upstream.as_ref().map(|id| id.value.0.clone()),
            facts: TestFacts {
                destructive: tool.destructive(),
                read_only: tool.read_only(),
                egress: tool.egress(),
                trust: tool.trust().0,
            },
            described: raw.tool.is_some(),
            expect: raw.expect.as_ref()?.value.0,
        })
    }
}

impl Rule {
    /// The kinds of things it names; nothing where it is about everything.
    fn subjects(&self) -> Vec<Subject> {
        let named = [
            (self.tools.is_some(), Subject::Tool),
            (self.prompts.is_some(), Subject::Prompt),
            (self.resources.is_some(), Subject::Resource),
            (self.asks.is_some(), Subject::Ask),
        ];
        named.into_iter().filter(|(named, _)| *named).map(|(_, subject)| subject).collect()
    }

    /// The lists that are written and empty.
    fn empty_lists(&self) -> Vec<(&'static str, &Place)> {
        let globs = [
            ("upstreams", &self.upstreams),
            ("servers", &self.servers),
            ("tools", &self.tools),
            ("prompts", &self.prompts),
            ("resources", &self.resources),
        ];
        let globs = globs.into_iter().filter_map(|(key, list)| Some((key, list.as_ref()?)));
        let mut empty: Vec<_> =
            globs.filter(|(_, list)| list.value.is_empty()).map(|(key, list)| (key, &list.place)).collect();
        if let Some(principals) = &self.principals {
            let lists = [
                ("principals.ids", &principals.value.ids),
                ("principals.groups", &principals.value.groups),
                ("principals.scopes", &principals.value.scopes),
                ("principals.issuers", &principals.value.issuers),
            ];
            let lists = lists.into_iter().filter_map(|(key, list)| Some((key, list.as_ref()?)));
            empty.extend(
                lists.filter(|(_, list)| list.value.is_empty()).map(|(key, list)| (key, &list.place)),
            );
        }
        empty.extend(
            self.methods.as_ref().filter(|list| list.value.is_empty()).map(|list| ("methods", &list.place)),
        );
        empty.extend(
            self.asks.as_ref().filter(|list| list.value.is_empty()).map(|list| ("asks", &list.place)),
        );
        empty
    }
}

fn patterns(list: Option<At<Vec<At<Glob>>>>) -> Option<Vec<Pattern>> {
    list.map(|list| list.value.into_iter().map(|glob| glob.value.0).collect())
}

fn claims(map: Map<ClaimName, Vec<At<Glob>>>) -> Vec<(String, Vec<Pattern>)> {
    let globs = |list: At<Vec<At<Glob>>>| list.value.into_iter().map(|glob| glob.value.0).collect();
    map.entries.into_iter().filter_map(|(name, list)| Some((name.value.0, globs(list?)))).collect()
}
