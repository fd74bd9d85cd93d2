//! One upstream's listed items, made ready to be shown: alias, standing, digest and bytes, computed once
//! a listing and not once a view.

use std::{collections::HashMap, sync::Arc};

use admission::{Facts, Standing};
use bytes::Bytes;
use config::Naming;
use wire::{
    Digest, Era, Item, Kind, Revision,
    mirror::Mirror,
    shape::{self, Structured},
    task::Support,
};

use super::{
    Catalog, Source,
    merge::admits_uri,
    names,
    refresh::{Remarks, printable},
};

/// One item as clients would see it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// The native name or URI.
    pub(super) native: Box<str>,
    /// The definition's canonical hash, over what the upstream said.
    pub(super) digest: Digest,
    /// The tool's arguments that are repeated in headers.
    pub(super) mirrors: Arc<[Mirror]>,
    /// Whether calls of the tool can become tasks.
    pub(super) tasks: Support,
    /// What rules may know about it.
    pub(super) facts: Arc<Facts>,
    /// As it looks where names have prefixes.
    prefixed: Face,
    /// As it looks where they have none; only if some virtual server wants that.
    bare: Option<Face>,
}

impl Shown {
    /// As it looks in a view that names things so.
    pub(super) fn face(&self, naming: Naming) -> &Face {
        match (naming, &self.bare) {
            (Naming::Bare, Some(face)) => face,
            // INVARIANT: whatever a bare virtual server selects has a bare face; see `Catalog::is_bare`.
            (Naming::Bare, None) | (Naming::Prefixed, _) => &self.prefixed,
        }
    }
}

/// One item under one name.
#[derive(Clone, Debug)]
pub(super) struct Face {
    /// The exposed name or URI.
    pub(super) exposed: Box<str>,
    /// Whether the upstream's own filters and our rules on names let it be seen.
    pub(super) standing: Standing,
    /// The definition under that name; every other byte is the upstream's.
    pub(super) definition: Definition,
}

/// A definition for each way in which revisions take structured output.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    any: Bytes,
    /// Only where it differs.
    with_tasks: Option<Bytes>,
    /// Only where it differs.
    objects: Option<Bytes>,
    /// Only where it differs from `objects`.
    nothing: Option<Bytes>,
}

impl Definition {
    fn new(kind: Kind, whole: Bytes, tasks: Support) -> Definition {
        if kind != Kind::Tools {
            return Definition { any: whole, with_tasks: None, objects: None, nothing: None };
        }
        let shown = |takes| shape::definition(&whole, takes, tasks).unwrap_or_else(|| whole.clone());
        let [any, with_tasks, objects, nothing] =
            [Structured::Any, Structured::WithTasks, Structured::Objects, Structured::Nothing].map(shown);
        let with_tasks = (with_tasks != any).then_some(with_tasks);
        let nothing = (nothing != objects).then_some(nothing);
        Definition { with_tasks, objects: (objects != any).then_some(objects), any, nothing }
    }

    /// The one for revisions that take so much.
    pub(super) fn taken(&self, takes: Structured) -> &Bytes {
        let objects = self.objects.as_ref().unwrap_or(&self.any);
        match takes {
            Structured::Any => &self.any,
            Structured::WithTasks => self.with_tasks.as_ref().unwrap_or(&self.any),
            Structured::Objects => objects,
            Structured::Nothing => self.nothing.as_ref().unwrap_or(objects),
        }
    }

    /// Whether revisions that take so much get another one than those that take more.
    pub(super) fn differs(&self, takes: Structured) -> bool {
        match takes {
            Structured::Any => false,
            Structured::WithTasks => self.with_tasks.is_some(),
            Structured::Objects => self.objects.is_some(),
            Structured::Nothing => self.nothing.is_some(),
        }
    }
}

/// Whether calls of a tool can become tasks. What a server says of a tool holds if it takes tasks at all; in the modern
/// era it says so once for all of them, and decides at each call (spec U-30).
fn support(kind: Kind, raw: &str, facts: &upstream::Facts) -> Support {
    if kind != Kind::Tools {
        return Support::Forbidden;
    }
    match facts.revision {
        Revision::R2026_07_28 if facts.takes_tasks() => Support::Optional,
        Revision::R2025_11_25 if facts.takes_tasks() => Support::of(raw),
        _ => Support::Forbidden,
    }
}

impl Catalog {
    /// Puts one listing of one kind on the shelf. What is left out is told in `remarks`.
    pub(super) fn shelve(
        &self,
        source: &Source,
        (kind, facts): (Kind, &upstream::Facts),
        items: &[Item],
        remarks: &mut Remarks,
    ) -> Vec<Shown> {
        let id = &*source.config.id;
        let era = facts.revision.era();
        let prefix = names::uri_prefix(id);
        let rewrite = |uri: &str| format!("{prefix}{uri}");
        let terms = self.terms();
        let rules = &terms.rules;
        let is_bare = rules.is_bare(id);
        let twins = names::twins(items.iter().map(Item::key));
        let filter = match kind {
            Kind::Tools => &source.config.tools,
            Kind::Prompts => &source.config.prompts,
            Kind::Resources | Kind::Templates => &source.config.resources,
        };
        let mut shelf = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let native = item.key();
            let (exposed, flaw) = match kind {
                Kind::Tools | Kind::Prompts => (
                    names::exposed(id, native, rules.names_max),
                    names::flaw(native, id, &rules.ids).or_else(|| twins.get(&position).copied()),
                ),
                // Equal URIs are one resource listed twice; only their first mention is kept, below.
                Kind::Resources | Kind::Templates => (rewrite(native).into(), names::uri_flaw(native)),
            };
            let (mirrors, flaw) = match (kind, wire::mirror::mirrors(item.raw())) {
                (Kind::Tools, Ok(mirrors)) => (mirrors.into(), flaw),
                // A client of the modern era must not call it (spec H-31); to a legacy one it is a word.
                (Kind::Tools, Err(why)) if era == Era::Modern => (Arc::default(), flaw.or(Some(why))),
                (Kind::Tools | Kind::Prompts | Kind::Resources | Kind::Templates, _) => {
                    (Arc::default(), flaw)
                }
            };
            let admitted = match kind {
                Kind::Tools | Kind::Prompts => filter.admits(native),
                Kind::Resources | Kind::Templates => admits_uri(filter, native),
            };
            let standing = match flaw {
                Some(why) => Standing::Excluded(why),
                None if admitted => Standing::Offered,
                None => Standing::Filtered,
            };
            if let Some(why) = flaw {
                remarks.push(|| format!("{} `{}` is left out: {why}", kind.member(), printable(native)));
            }
            let tasks = support(kind, item.raw(), facts);
            let face = |exposed: Box<str>, uri: &dyn Fn(&str) -> String| {
                let definition = Definition::new(kind, item.exposed(&exposed, uri), tasks);
                Face { exposed, standing, definition }
            };
            shelf.push(Shown {
                native: native.into(),
                digest: wire::digest(item.raw()),
                mirrors,
                tasks,
                facts: Arc::new(source.facts(kind, (native, &exposed), item.raw())),
                prefixed: face(exposed, &rewrite),
                bare: is_bare.then(|| face(native.into(), &str::to_owned)),
            });
        }
        drop_ambiguous(&mut shelf, kind, remarks);
        shelf
    }
}

/// Two claims on one exposed name: nobody gets it, and the operator is told (bug B22). For resources the
/// first mention stays, since equal URIs name the same thing.
///
/// INVARIANT: names of different upstreams cannot meet here or later, since an exposed name begins with the
/// upstream's id and `__`, and no id contains or ends in `__`. Bare names are native, and those are told apart
/// before.
fn drop_ambiguous(shelf: &mut Vec<Shown>, kind: Kind, remarks: &mut Remarks) {
    let mut claims: HashMap<Box<str>, usize> = HashMap::new();
    for shown in shelf.iter() {
        *claims.entry(shown.prefixed.exposed.clone()).or_default() += 1;
    }
    claims.retain(|_, count| *count > 1);
    if claims.is_empty() {
        return;
    }
    match kind {
        Kind::Tools | Kind::Prompts => {
            for shown in shelf.iter_mut().filter(|shown| claims.contains_key(&shown.prefixed.exposed)) {
                let face = &mut shown.prefixed;
                if matches!(face.standing, Standing::Excluded(_)) {
                    continue;
                }
                face.standing = Standing::Excluded("another name has the same alias");
                let native = printable(&shown.native);
                remarks.push(|| {
                    format!(
                        "{} `{native}` is left out: another name has the same alias `{}`",
                        kind.member(),
                        face.exposed
                    )
                });
            }
        }
        Kind::Resources | Kind::Templates => {
            let mut seen = std::collections::HashSet::new();
            shelf.retain(|shown| seen.insert(shown.native.clone()));
        }
    }
}
