//! What one client can be asked by one upstream: what it declared, as far as the tenant and its revision allow.

use std::sync::{Arc, LazyLock, OnceLock};

use config::{Asks, Share, Transport};
use upstream::Declared;
use wire::{Revision, input::member};

/// What an upstream may ask of anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    sampling: bool,
    roots: bool,
    /// It can tell users apart, so it may send one to a page (spec Q-14).
    urls: bool,
}

impl Reach {
    /// How far an upstream of a tenant reaches that allows this much.
    pub(crate) fn of(upstream: &config::Upstream, allow: &[Asks]) -> Reach {
        // What all users have in common tells the server nothing about who opens a page.
        let (remote, common) = match &upstream.transport {
            Transport::Stdio { .. } => (false, false),
            Transport::Http { credential, cert, .. } => {
                let shows = cert.is_some() || **credential != config::Credential::None;
                (true, shows && !credential.is_for_principals())
            }
        };
        Reach {
            sampling: allow.contains(&Asks::Sampling),
            // Folders of this machine are nobody's business elsewhere (spec Q-10).
            roots: allow.contains(&Asks::RemoteRoots) || (!remote && allow.contains(&Asks::Roots)),
            urls: upstream.share != Share::Tenant && !common,
        }
    }

    /// As far as the protocol goes.
    pub(super) fn everything() -> Reach {
        Reach { sampling: true, roots: true, urls: true }
    }

    fn place(self) -> usize {
        usize::from(self.sampling) | usize::from(self.roots) << 1 | usize::from(self.urls) << 2
    }
}

/// What a client can be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    sampling: Option<Sampling>,
    elicitation: Option<Elicitation>,
    /// Whether it says when its roots change.
    roots: Option<bool>,
    declared: Option<Declared>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sampling {
    tools: bool,
    context: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elicitation {
    form: bool,
    url: bool,
    /// The client named no mode, which means forms (spec Q-12).
    bare: bool,
}

impl Offer {
    /// Nothing.
    pub(crate) fn nothing() -> &'static Arc<Offer> {
        static NOTHING: LazyLock<Arc<Offer>> = LazyLock::new(Arc::default);
        &NOTHING
    }

    /// What is left of a client's `capabilities`, JSON text, for an upstream that reaches so far (spec Q-01, X-01, X-21).
    pub(crate) fn of(capabilities: &str, revision: Revision, reach: Reach) -> Arc<Offer> {
        if capabilities == "{}" {
            return Arc::clone(Offer::nothing());
        }
        let object = |key| member(capabilities, key).filter(|raw| raw.starts_with('{'));
        let has = |raw, key| member(raw, key).is_some_and(|value| value.starts_with('{') || value == "true");
        let since = |first| revision >= first;
        let sampling = object("sampling").filter(|_| reach.sampling).map(|raw| Sampling {
            tools: since(Revision::R2025_11_25) && has(raw, "tools"),
            context: since(Revision::R2025_11_25) && has(raw, "context"),
        });
        let elicitation = object("elicitation").filter(|_| since(Revision::R2025_06_18)).map(|raw| {
            let modes = since(Revision::R2025_11_25);
            let (form, url) = (modes && has(raw, "form"), modes && has(raw, "url"));
            let bare = !form && !url;
            Elicitation { form: form || bare, url: url && reach.urls, bare }
        });
        // Without a mode it would mean forms.
        let elicitation = elicitation.filter(|elicitation| elicitation.form || elicitation.url);
        let roots = object("roots").filter(|_| reach.roots).map(|raw| has(raw, "listChanged"));
        let mut offer = Offer { sampling, elicitation, roots, declared: None };
        offer.declared = Some(Declared::of(&offer.capabilities(false)));
        Arc::new(offer)
    }

    /// As a legacy upstream hears of it.
    pub(crate) fn declared(&self) -> Declared {
        self.declared.clone().unwrap_or_else(Declared::nothing)
    }

    /// As a modern upstream hears of it, JSON text. There a mode is always named (spec X-01).
    pub(crate) fn envelope(&self) -> String {
        self.capabilities(true)
    }

    fn capabilities(&self, modern: bool) -> String {
        let mut parts = Vec::new();
        let object = |members: &[(bool, &str)]| {
            let named = members.iter().filter(|(has, _)| *has).map(|(_, name)| format!("\"{name}\":{{}}"));
            named.collect::<Vec<_>>().join(",")
        };
        if let Some(Sampling { tools, context }) = self.sampling {
            parts.push(format!("\"sampling\":{{{}}}", object(&[(tools, "tools"), (context, "context")])));
        }
        if let Some(Elicitation { form, url, bare }) = self.elicitation {
            let members = object(&[(form && (modern || !bare), "form"), (url, "url")]);
            parts.push(format!("\"elicitation\":{{{members}}}"));
        }
        if let Some(changes) = self.roots {
            // Nobody tells a modern server that they changed (spec Q-10).
            let members = if changes && !modern { "\"listChanged\":true" } else { "" };
            parts.push(format!("\"roots\":{{{members}}}"));
        }
        format!("{{{}}}", parts.join(","))
    }

    pub(super) fn samples(&self) -> bool {
        self.sampling.is_some()
    }

    pub(super) fn samples_with_tools(&self) -> bool {
        self.sampling.is_some_and(|sampling| sampling.tools)
    }

    pub(super) fn elicits(&self) -> bool {
        self.elicitation.is_some()
    }

    pub(super) fn shows_forms(&self) -> bool {
        self.elicitation.is_some_and(|elicitation| elicitation.form)
    }

    pub(super) fn opens_urls(&self) -> bool {
        self.elicitation.is_some_and(|elicitation| elicitation.url)
    }

    pub(super) fn has_roots(&self) -> bool {
        self.roots.is_some()
    }
}

/// The offers of one session, each made once: one for every reach an upstream may have.
#[derive(Debug, Default)]
pub(crate) struct Offers([OnceLock<Arc<Offer>>; 8]);

impl Offers {
    /// The offer to an upstream that reaches so far.
    pub(crate) fn get(&self, capabilities: &str, revision: Revision, reach: Reach) -> Arc<Offer> {
        let make = || Offer::of(capabilities, revision, reach);
        match self.0.get(reach.place()) {
            Some(offer) => Arc::clone(offer.get_or_init(make)),
            None => make(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Reach = Reach { sampling: true, roots: true, urls: true };
    const EVERYTHING: &str = r#"{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"x":{}}"#;

    fn check(capabilities: &str, revision: Revision, reach: Reach, legacy: &str, modern: &str) {
        let offer = Offer::of(capabilities, revision, reach);
        assert_eq!(
            (offer.declared().raw(), &*offer.envelope()),
            (legacy, modern),
            "{capabilities} {revision:?}"
        );
    }

    #[test]
    fn a_client_of_the_newest_revisions_is_mirrored() {
        let legacy = r#"{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}"#;
        let modern =
            r#"{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{}}"#;
        for revision in [Revision::R2025_11_25, Revision::R2026_07_28] {
            check(EVERYTHING, revision, ALL, legacy, modern);
            check(
                r#"{"elicitation":{}}"#,
                revision,
                ALL,
                r#"{"elicitation":{}}"#,
                r#"{"elicitation":{"form":{}}}"#,
            );
        }
    }

    #[test]
    fn what_its_revision_does_not_know_it_cannot_be_asked() {
        let roots_and_sampling = r#"{"sampling":{},"roots":{"listChanged":true}}"#;
        for revision in [Revision::R2024_11_05, Revision::R2025_03_26] {
            check(EVERYTHING, revision, ALL, roots_and_sampling, r#"{"sampling":{},"roots":{}}"#);
        }
        let reach = Reach { sampling: false, roots: false, urls: true };
        check(
            EVERYTHING,
            Revision::R2025_06_18,
            reach,
            r#"{"elicitation":{}}"#,
            r#"{"elicitation":{"form":{}}}"#,
        );
    }

    #[test]
    fn what_the_tenant_does_not_allow_is_not_declared() {
        let form = r#"{"elicitation":{"form":{}}}"#;
        check(EVERYTHING, Revision::R2025_11_25, Reach::default(), form, form);
        // Without its one mode, what is left would mean forms.
        check(r#"{"elicitation":{"url":{}}}"#, Revision::R2025_11_25, Reach::default(), "{}", "{}");
    }

    #[test]
    fn one_offer_is_made_for_each_reach() {
        let offers = Offers::default();
        let get = |reach| offers.get(EVERYTHING, Revision::R2025_11_25, reach);
        assert!(Arc::ptr_eq(&get(ALL), &get(ALL)));
        assert_ne!(get(ALL), get(Reach::default()));
        assert!(!get(Reach::default()).samples() && get(ALL).samples());
    }
}
