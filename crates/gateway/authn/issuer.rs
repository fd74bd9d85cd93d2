//! An issuer whose tokens are accepted: what they must look like, and how they are proved.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use admission::TenantId;
use config::{Algorithm, IssuerClaims};

use super::{flaw::Flaw, introspection::Introspection, jwks::Jwks, token::Token};

/// How far the clocks of the gateway itself may differ from each other, in seconds.
const LEEWAY: u64 = 30;

/// One issuer, compiled from the configuration.
pub(super) struct Issuer {
    /// The `iss` of its tokens.
    pub(super) name: Arc<str>,
    /// Whom it vouches for.
    pub(super) realm: Realm,
    /// How its tokens are proved.
    pub(super) proof: Proof,
    /// The `aud` of its tokens, when that is not the URL of the endpoint.
    pub(super) audience: Option<Box<str>>,
    /// How its tokens may be signed.
    pub(super) algorithms: Vec<Algorithm>,
    /// How far its clock may differ from ours, in seconds.
    pub(super) leeway: u64,
    /// What every token must carry (spec A-04).
    pub(super) scopes: Box<[Box<str>]>,
    /// Which scopes hold others (spec A-07).
    pub(super) hierarchy: Hierarchy,
    /// Which claims say what.
    pub(super) claims: IssuerClaims,
    /// What it was compiled from; nothing for ourselves.
    pub(super) written: Option<config::Issuer>,
}

/// Whom an issuer vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Realm {
    /// Principals of this tenant (spec A-03).
    Tenant(TenantId),
    /// Principals of any tenant: its tokens name theirs.
    Shared,
    /// We are the issuer: our tokens name their tenant.
    Ours,
}

/// How tokens are proved.
pub(super) enum Proof {
    /// By their signature, with the published keys.
    Keys(Arc<Jwks>),
    /// By asking the issuer.
    Asked(Arc<Introspection>),
    /// By their signature, with the key of our store.
    Ours,
}

impl Issuer {
    /// The gateway itself.
    pub(super) fn ourselves() -> Issuer {
        Issuer {
            name: config::LOCAL_ISSUER.into(),
            realm: Realm::Ours,
            proof: Proof::Ours,
            audience: None,
            algorithms: vec![Algorithm::EdDSA],
            leeway: LEEWAY,
            scopes: Box::default(),
            hierarchy: Hierarchy::default(),
            claims: IssuerClaims { tenant: Some("tenant".to_owned()), ..IssuerClaims::default() },
            written: None,
        }
    }

    /// Whether it vouches for principals of this tenant.
    fn speaks_for(&self, tenant: &str) -> bool {
        match &self.realm {
            Realm::Tenant(only) => **only.name() == *tenant,
            Realm::Shared | Realm::Ours => true,
        }
    }
}

/// All issuers, by `iss`. Several are called the same only where each speaks for one tenant, and the same claim of their
/// tokens says which.
#[derive(Default)]
pub(super) struct Issuers(HashMap<Arc<str>, Vec<Issuer>>);

impl Issuers {
    /// Adds one. None when its tokens could not be told from those of another.
    pub(super) fn add(&mut self, issuer: Issuer) -> Option<()> {
        let named = self.0.entry(Arc::clone(&issuer.name)).or_default();
        let apart = |other: &Issuer| match (&issuer.realm, &other.realm) {
            (Realm::Tenant(one), Realm::Tenant(two)) => {
                one != two && issuer.claims.tenant.is_some() && issuer.claims.tenant == other.claims.tenant
            }
            (Realm::Tenant(_) | Realm::Shared | Realm::Ours, _) => false,
        };
        named.iter().all(apart).then(|| named.push(issuer))
    }

    /// Whose token it says it is: picks how it is proved, and proves nothing.
    pub(super) fn of(&self, token: &Token<'_>) -> Result<&Issuer, Flaw> {
        let named = self.0.get(token.issuer()?).ok_or(Flaw::Issuer)?;
        match named.as_slice() {
            [only] => Ok(only),
            several => {
                let claim = several.first().and_then(|first| first.claims.tenant.as_deref());
                let tenant = claim.and_then(|claim| token.claims().text(claim).ok());
                let tenant = tenant.ok_or(Flaw::Claim("tenant"))?;
                several.iter().find(|issuer| issuer.speaks_for(tenant)).ok_or(Flaw::Tenant)
            }
        }
    }

    /// The one of this name that vouches for this tenant.
    pub(super) fn named(&self, name: &str, tenant: &str) -> Option<&Issuer> {
        self.0.get(name)?.iter().find(|issuer| issuer.speaks_for(tenant))
    }

    /// The one that was compiled from the same words, for the same realm.
    pub(super) fn same(&self, written: &config::Issuer, realm: &Realm) -> Option<&Issuer> {
        let named = self.0.get(&written.issuer)?;
        named.iter().find(|issuer| issuer.written.as_ref() == Some(written) && issuer.realm == *realm)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Issuer> + Clone {
        self.0.values().flatten()
    }
}

/// Which scopes hold others: by scope, all that it holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hierarchy(HashMap<Box<str>, BTreeSet<Box<str>>>);

impl Hierarchy {
    /// From what each holds directly.
    pub(super) fn of(written: &[(String, Vec<String>)]) -> Hierarchy {
        let all_of = |scope: &str| {
            let mut found: BTreeSet<Box<str>> = BTreeSet::new();
            let mut open = vec![scope];
            while let Some(holder) = open.pop() {
                let direct = written.iter().filter(|(scope, _)| scope == holder).flat_map(|(_, held)| held);
                open.extend(direct.filter(|held| found.insert(held.as_str().into())).map(String::as_str));
            }
            found
        };
        Hierarchy(written.iter().map(|(scope, _)| (scope.as_str().into(), all_of(scope))).collect())
    }

    /// Whether one scope holds another, and not the other way round as well.
    pub(super) fn includes(&self, holder: &str, scope: &str) -> bool {
        let holds = |holder: &str, scope: &str| self.0.get(holder).is_some_and(|held| held.contains(scope));
        holds(holder, scope) && !holds(scope, holder)
    }

    /// These scopes and all that they hold, each once.
    pub(super) fn holds(&self, scopes: Vec<&str>) -> Box<[Box<str>]> {
        let mut all: Vec<Box<str>> = Vec::with_capacity(scopes.len());
        for scope in scopes {
            let held = self.0.get(scope).into_iter().flatten().map(|held| &**held);
            for scope in std::iter::once(scope).chain(held) {
                if !all.iter().any(|known| **known == *scope) {
                    all.push(scope.into());
                }
            }
        }
        all.into()
    }
}

#[cfg(test)]
mod tests {
    use super::Hierarchy;

    #[test]
    fn a_scope_holds_what_its_scopes_hold() {
        let lists = [("admin", "write"), ("write", "read list"), ("loop", "loop admin")];
        let written = lists
            .map(|(scope, held)| (scope.to_owned(), held.split(' ').map(str::to_owned).collect::<Vec<_>>()));
        let hierarchy = Hierarchy::of(&written);
        let holds = |scopes: &[&str]| hierarchy.holds(scopes.to_vec()).join(" ");
        assert_eq!(holds(&["admin"]), "admin list read write");
        assert_eq!(holds(&["read", "write", "other"]), "read write list other");
        assert_eq!(holds(&["loop"]), "loop admin list read write");
        assert_eq!(holds(&["*"]), "*");
        assert!(hierarchy.includes("admin", "read") && !hierarchy.includes("read", "admin"));
        assert!(!hierarchy.includes("loop", "loop"));
    }
}
