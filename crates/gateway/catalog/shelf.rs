//! One upstream's listed items, made ready to be shown: alias, standing, digest and bytes, computed once
//! a listing and not once a view.

use std::{collections::HashMap, sync::Arc};

use admission::Standing;
use bytes::Bytes;
use wire::{Digest, Era, Item, Kind, mirror::Mirror};

use super::{
    Catalog, Source,
    merge::admits_uri,
    names,
    refresh::{Remarks, printable},
};

/// One item as clients would see it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// The exposed name or URI.
    pub(super) exposed: Box<str>,
    /// The native one.
    pub(super) native: Box<str>,
    /// The definition's canonical hash, over what the upstream said.
    pub(super) digest: Digest,
    /// Whether the upstream's own filters and our rules on names let it be seen.
    pub(super) standing: Standing,
    /// The definition under its exposed name; every other byte is the upstream's.
    pub(super) bytes: Bytes,
    /// The tool's arguments that are repeated in headers.
    pub(super) mirrors: Arc<[Mirror]>,
}

impl Catalog {
    /// Puts one listing of one kind on the shelf. What is left out is told in `remarks`.
    pub(super) fn shelve(
        &self,
        source: &Source,
        (kind, era): (Kind, Era),
        items: &[Item],
        remarks: &mut Remarks,
    ) -> Vec<Shown> {
        let id = &*source.config.id;
        let prefix = names::uri_prefix(id);
        let rewrite = |uri: &str| format!("{prefix}{uri}");
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
                    names::exposed(id, native, self.rules.names_max),
                    names::flaw(native, id, &self.rules.ids).or_else(|| twins.get(&position).copied()),
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
            let bytes = item.exposed(&exposed, &rewrite);
            let digest = wire::digest(item.raw());
            shelf.push(Shown { exposed, native: native.into(), digest, standing, bytes, mirrors });
        }
        drop_ambiguous(&mut shelf, kind, remarks);
        shelf
    }
}

/// Two claims on one exposed name: nobody gets it, and the operator is told (bug B22). For resources the
/// first mention stays, since equal URIs name the same thing.
///
/// INVARIANT: names of different upstreams cannot meet here or later, since an exposed name begins with the
/// upstream's id and `__`, and no id contains or ends in `__`.
fn drop_ambiguous(shelf: &mut Vec<Shown>, kind: Kind, remarks: &mut Remarks) {
    let mut claims: HashMap<Box<str>, usize> = HashMap::new();
    for shown in shelf.iter() {
        *claims.entry(shown.exposed.clone()).or_default() += 1;
    }
    claims.retain(|_, count| *count > 1);
    if claims.is_empty() {
        return;
    }
    match kind {
        Kind::Tools | Kind::Prompts => {
            for shown in shelf.iter_mut().filter(|shown| claims.contains_key(&shown.exposed)) {
                if matches!(shown.standing, Standing::Excluded(_)) {
                    continue;
                }
                shown.standing = Standing::Excluded("another name has the same alias");
                let native = printable(&shown.native);
                remarks.push(|| {
                    format!(
                        "{} `{native}` is left out: another name has the same alias `{}`",
                        kind.member(),
                        shown.exposed
                    )
                });
            }
        }
        Kind::Resources | Kind::Templates => {
            let mut seen = std::collections::HashSet::new();
            shelf.retain(|shown| seen.insert(shown.exposed.clone()));
        }
    }
}
