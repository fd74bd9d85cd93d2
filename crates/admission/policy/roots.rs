//! What conditions may look at: the names that exist, and the values they have for one call.

use std::{collections::HashMap, sync::OnceLock};

use cel::{
    Value,
    common::{
        types::{CelBool, CelList, CelMap, CelMapKey, CelString, CelTimestamp},
        value::{CowVal, Val},
    },
    context::VariableResolver,
    objects::{Key, Map},
};
use chrono::{DateTime, FixedOffset};

use super::reads::{Reads, Size, Uses, ends_soon};
use crate::{
    Facts, Flaw, Principal, Scene, Sort, Thing,
    json::{self, Read, Unfit},
};

/// The longest list a loop may go through, of the arguments (design 0.1.9).
const LOOP: usize = 256;

/// The roots, and what each has; an empty list is for what only the caller knows.
const ROOTS: [(&str, &[&str]); 9] = [
    ("principal", &["id", "tenant", "issuer", "groups", "scopes"]),
    ("claims", &[]),
    ("tool", &["name", "native", "upstream", "trust", "annotations", "destructive", "readOnly", "egress"]),
    ("resource", &["uri", "upstream", "trust"]),
    ("prompt", &["name", "native", "upstream", "trust"]),
    ("args", &[]),
    ("request", &["method", "server"]),
    ("session", &["id", "tainted"]),
    ("now", &[]),
];

pub(super) fn is_root(name: &str) -> bool {
    ROOTS.iter().any(|(root, _)| *root == name)
}

/// Whether a name, and what is selected of it, stands for anything.
pub(super) fn exists(name: &str, field: Option<&str>) -> Result<(), Flaw> {
    let Some((_, fields)) = ROOTS.iter().find(|(root, _)| *root == name) else {
        let names = ROOTS.iter().map(|(root, _)| *root);
        let hint = match crate::nearest(name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("names that exist: {}", names.collect::<Vec<_>>().join(", ")),
        };
        return Err(Flaw::new(format!("names `{name}`, which does not exist")).hint(hint));
    };
    match field {
        Some(field) if !fields.is_empty() && !fields.contains(&field) => {
            let hint = match crate::nearest(field, fields.iter().copied()) {
                Some(near) => format!("did you mean `{name}.{near}`?"),
                None => format!("`{name}` has {}", fields.join(", ")),
            };
            Err(Flaw::new(format!("names `{name}.{field}`, which does not exist")).hint(hint))
        }
        None if !fields.is_empty() => Err(Flaw::new(format!("compares all of `{name}`"))
            .hint(format!("`{name}` has {}", fields.join(", ")))),
        Some(_) if name == "now" => Err(Flaw::new("selects from `now`").hint("write `now.getHours()`")),
        Some(_) | None => Ok(()),
    }
}

/// What is asked about, and for whom.
pub(super) struct Roots<'c, 'a> {
    pub(super) asker: &'c Principal,
    pub(super) server: &'c str,
    pub(super) upstream: &'c str,
    pub(super) sort: Option<Sort>,
    pub(super) thing: Option<&'c Thing>,
    pub(super) facts: &'c Facts,
    /// The call; without one everything that only a call has is unknown, and asking for it an error.
    pub(super) call: Option<Asked<'c, 'a>>,
    pub(super) reads: &'c Reads,
}

/// What only a call has.
#[derive(Clone, Copy)]
pub(super) struct Asked<'c, 'a> {
    pub(super) method: &'c str,
    pub(super) scene: &'c Scene,
    /// Its arguments; none where what is asked about a thing is no use of it.
    pub(super) seen: Option<&'c Seen<'a>>,
}

impl VariableResolver for Roots<'_, '_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let (root, field) = variable.split_once('.').unwrap_or((variable, ""));
        match root {
            "principal" => self.principal(field),
            "claims" if field.is_empty() => Some(CowVal::Borrowed(&*self.asker.claims.read()?.ok()?.value)),
            "tool" if self.sort == Some(Sort::Tool) => self.of_thing(field),
            "prompt" if self.sort == Some(Sort::Prompt) => self.of_thing(field),
            "resource" if self.sort == Some(Sort::Resource) => match field {
                "uri" => Some(text(&self.facts.name)),
                other => self.of_thing(other),
            },
            "args" if field.is_empty() => self.call?.seen?.map(self.reads).map(CowVal::owned),
            "args" => self.call?.seen?.argument(field).map(CowVal::Borrowed),
            "request" => match field {
                "server" => Some(text(self.server)),
                "method" => Some(text(self.call?.method)),
                _ => None,
            },
            "session" => match field {
                "id" => Some(text(self.call?.scene.session.as_deref().unwrap_or_default())),
                "tainted" => Some(bool(self.call?.scene.tainted)),
                _ => None,
            },
            "now" if field.is_empty() => {
                let seconds = i64::try_from(self.call?.scene.now).ok()?;
                let time: DateTime<FixedOffset> = DateTime::from_timestamp(seconds, 0)?.fixed_offset();
                Some(CowVal::owned(CelTimestamp::from(time)))
            }
            _ => None,
        }
    }
}

impl<'a> Roots<'_, 'a> {
    /// The same, for a condition that reads this.
    pub(super) fn reading<'s>(&'s self, reads: &'s Reads) -> Roots<'s, 'a> {
        let Roots { asker, server, upstream, sort, thing, facts, call, .. } = *self;
        Roots { asker, server, upstream, sort, thing, facts, call, reads }
    }

    fn principal<'b>(&'b self, field: &str) -> Option<CowVal<'b, 'b>> {
        let Principal { subject, tenant, issuer, groups, scopes, .. } = self.asker;
        match field {
            "id" => Some(text(subject)),
            "tenant" => Some(text(tenant.name())),
            "issuer" => Some(text(issuer)),
            "groups" => self.list(groups, |seen| &seen.groups),
            "scopes" => self.list(scopes, |seen| &seen.scopes),
            _ => None,
        }
    }

    /// A list of the principal's: within a call it is made once.
    fn list<'b>(
        &'b self,
        texts: &[Box<str>],
        place: fn(&'b Seen<'a>) -> &'b OnceLock<Box<dyn Val>>,
    ) -> Option<CowVal<'b, 'b>> {
        let make = || -> Box<dyn Val> {
            let boxed = |text: &str| -> Box<dyn Val> { Box::new(CelString::from(text.to_owned())) };
            Box::new(CelList::from(texts.iter().map(|text| boxed(text)).collect::<Vec<_>>()))
        };
        Some(match self.call.and_then(|call| call.seen) {
            Some(seen) => CowVal::Borrowed(&**place(seen).get_or_init(make)),
            None => CowVal::Owned(make()),
        })
    }

    fn of_thing<'b>(&'b self, field: &str) -> Option<CowVal<'b, 'b>> {
        match field {
            "name" => Some(text(&self.facts.name)),
            "native" => Some(text(self.thing.map_or(&*self.facts.name, |thing| &thing.native))),
            "upstream" => Some(text(self.upstream)),
            "trust" => Some(text(self.facts.trust.word())),
            "destructive" => Some(bool(self.facts.destructive)),
            "readOnly" => Some(bool(self.facts.read_only)),
            "egress" => Some(bool(self.facts.egress)),
            "annotations" => match &self.facts.annotations {
                Some(raw) => value(json::value(raw).ok()?),
                None => value(Value::Map(Map { map: HashMap::<Key, Value>::new().into() })),
            },
            _ => None,
        }
    }

    /// Whether all is known that a condition looks at, beyond what claims a token may have.
    pub(super) fn knows(&self, reads: &Reads) -> bool {
        self.call.is_some_and(|call| call.seen.is_some() || !reads.args())
    }

    /// Why what a condition looks at cannot be computed with; `None` when all that is read can.
    pub(super) fn unfit(&self) -> Option<Unfit> {
        let reads = self.reads;
        let mut seen = Vec::new();
        if reads.claims.any() {
            match self.asker.claims.read() {
                Some(Ok(read)) => seen.push((reads.claims, read.size)),
                Some(Err(unfit)) => return Some(unfit),
                None => (),
            }
        }
        if reads.lists.any() && reads.body > 0 {
            let longest = self.asker.groups.len() + self.asker.scopes.len();
            seen.push((reads.lists, Size { work: longest * 2 * Size::VALUE, longest }));
        }
        if reads.args()
            && let Some(args) = self.call.and_then(|call| call.seen)
            && let Err(unfit) = args.add(reads, &mut seen)
        {
            return Some(unfit);
        }
        (!ends_soon(reads, &seen)).then_some(Unfit::TooLarge)
    }
}

fn text(text: &str) -> CowVal<'_, '_> {
    CowVal::owned(CelString::from(text))
}

fn bool<'b>(value: bool) -> CowVal<'b, 'b> {
    CowVal::owned(CelBool::from(value))
}

fn value<'b>(value: Value) -> Option<CowVal<'b, 'b>> {
    let boxed: Box<dyn Val> = value.try_into().ok()?;
    Some(CowVal::Owned(boxed))
}

/// What rules read of one call, made when the first asks: the arguments, as far as they are read, and the lists of the
/// principal.
pub(super) struct Seen<'c> {
    raw: Option<&'c str>,
    members: OnceLock<Result<Vec<Member<'c>>, Unfit>>,
    groups: OnceLock<Box<dyn Val>>,
    scopes: OnceLock<Box<dyn Val>>,
}

/// One argument.
struct Member<'c> {
    name: String,
    raw: &'c str,
    read: OnceLock<Result<Read, Unfit>>,
}

impl<'c> Seen<'c> {
    /// Of a call with these `params.arguments`, raw.
    pub(super) fn new(raw: Option<&'c str>) -> Seen<'c> {
        Seen { raw, members: OnceLock::new(), groups: OnceLock::new(), scopes: OnceLock::new() }
    }

    fn members(&self) -> Result<&[Member<'c>], Unfit> {
        let found = self.members.get_or_init(|| {
            let Some(raw) = self.raw else { return Ok(Vec::new()) };
            let member = |(name, raw)| Member { name, raw, read: OnceLock::new() };
            Ok(json::members(raw)?.into_iter().map(member).collect())
        });
        found.as_deref().map_err(|unfit| *unfit)
    }

    /// The arguments that a condition reads and a call has.
    fn read(&self, reads: &Reads) -> Result<impl Iterator<Item = &Member<'c>>, Unfit> {
        Ok(self
            .members()?
            .iter()
            .filter(|member| reads.all.any() || reads.members.contains_key(&*member.name)))
    }

    fn argument(&self, name: &str) -> Option<&dyn Val> {
        let member = self.members().ok()?.iter().find(|member| member.name == name)?;
        Some(&*member.read().ok()?.value)
    }

    /// What a condition reads, as one map.
    fn map(&self, reads: &Reads) -> Option<CelMap<'static>> {
        let mut map: HashMap<CelMapKey<'static>, Box<dyn Val>> = HashMap::new();
        for member in self.read(reads).ok()? {
            let name = CelMapKey::from(member.name.clone());
            map.insert(name, member.read().ok()?.value.clone_as_boxed());
        }
        Some(CelMap::from(map))
    }

    /// What a condition looks at of them, how often, and how large each is.
    fn add(&self, reads: &Reads, seen: &mut Vec<(Uses, Size)>) -> Result<(), Unfit> {
        let mut count = 0;
        for member in self.read(reads)? {
            let size = member.read()?.size;
            if reads.body > 0 && size.longest > LOOP {
                return Err(Unfit::TooLarge);
            }
            let named = reads.members.get(&*member.name).copied().unwrap_or_default();
            let Uses { once, each } = reads.all;
            seen.push((Uses { once: named.once + once, each: named.each + each }, size));
            count += 1;
        }
        if reads.all.any() {
            if reads.body > 0 && count > LOOP {
                return Err(Unfit::TooLarge);
            }
            seen.push((reads.all, Size { work: count * Size::VALUE, longest: count }));
        }
        Ok(())
    }
}

impl Member<'_> {
    fn read(&self) -> Result<&Read, Unfit> {
        let read = self.read.get_or_init(|| Read::of(self.raw, json::value(self.raw)?));
        read.as_ref().map_err(|unfit| *unfit)
    }
}
