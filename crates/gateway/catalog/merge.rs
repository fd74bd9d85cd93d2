//! Stock → views: selection, filters, order.

use std::{collections::HashMap, sync::Arc};

use admission::{Sort, Standing, Thing};
use config::{Filter, Naming};
use wire::{Kind, digest_of, shape::Structured};

use super::{
    Catalog, Shop, Stock, StockState, Terms, capabilities,
    capabilities::{Introductions, Merged},
    names::{self, Prefixes},
    offer::Offers,
    shelf::{Face, Shown},
    view::{Entry, List, Owner, View},
};

type Stocks = std::collections::BTreeMap<Arc<str>, Stock>;

/// Merged instructions stop growing here, in bytes.
const INSTRUCTIONS: usize = 16 * 1024;

/// All views of a tenant.
pub(super) fn merge(catalog: &Catalog, stock: &Stocks) -> Shop {
    let terms = catalog.terms();
    let views = terms
        .rules
        .servers
        .iter()
        .map(|server| (Arc::clone(&server.name), Arc::new(view(&terms, server, stock))))
        .collect();
    let awaited = stock.iter().filter_map(|(id, stock)| match stock.state {
        StockState::Starting { until } | StockState::Reading { until } => Some((Arc::clone(id), until)),
        StockState::Up | StockState::Down => None,
    });
    let unknown = stock.iter().filter(|(_, stock)| matches!(stock.state, StockState::Starting { .. }));
    Shop { views, awaited: awaited.collect(), unknown: unknown.map(|(id, _)| Arc::clone(id)).collect() }
}

fn view(terms: &Terms, server: &config::VirtualServer, stock: &Stocks) -> View {
    // The order of a list: upstream id, then the upstream's own order (spec T-07).
    let mut upstreams = server.upstreams.clone();
    upstreams.sort();
    upstreams.dedup();
    let selected: Vec<(&Arc<str>, &Stock)> =
        upstreams.iter().filter_map(|id| Some((id, stock.get(id)?))).collect();
    let absent: Vec<_> =
        selected.iter().filter(|(_, stock)| !stock.is_listed()).map(|(id, _)| Arc::clone(id)).collect();
    let mut tables = Tables::default();
    let lists = Kind::ALL.map(|kind| list(kind, &selected, server, &absent, &mut tables));
    let said = Introductions {
        known: selected.iter().filter_map(|(_, stock)| stock.capabilities.as_deref()).collect(),
        more: selected.iter().any(|(_, stock)| stock.capabilities.is_none()),
    };
    let Merged { capabilities, extras, promised } = capabilities::merged(&said, &terms.rules.extensions);
    let owner = |id: &Arc<str>| {
        let source = Arc::clone(terms.sources.get(id)?);
        Some((Arc::clone(id), Owner { source, filter: server.resources.clone() }))
    };
    View {
        server: Arc::clone(&server.name),
        capabilities,
        extras,
        promised,
        instructions: instructions(&selected, server.names),
        lists,
        tools: tables.tools,
        prompts: tables.prompts,
        resources: tables.resources,
        prefixes: Prefixes::of(&upstreams, server.names),
        owners: upstreams.iter().filter_map(owner).collect(),
        offers: Offers::default(),
        absent,
        upstreams,
    }
}

/// The tables of names of a view under construction.
#[derive(Default)]
struct Tables {
    tools: HashMap<Box<str>, Arc<Thing>>,
    prompts: HashMap<Box<str>, Arc<Thing>>,
    resources: HashMap<Box<str>, Arc<Thing>>,
}

fn list(
    kind: Kind,
    selected: &[(&Arc<str>, &Stock)],
    server: &config::VirtualServer,
    absent: &[Arc<str>],
    tables: &mut Tables,
) -> List {
    let filter = filter_of(server, kind);
    let mut entries = Vec::new();
    for (id, stock) in selected {
        for (position, shown) in stock.shelf(kind).iter().enumerate() {
            let admitted = match kind {
                Kind::Tools | Kind::Prompts => filter.admits(&shown.native),
                Kind::Resources | Kind::Templates => admits_uri(filter, &shown.native),
            };
            let face = shown.face(server.names);
            let standing = match face.standing {
                Standing::Offered if !admitted => Standing::Filtered,
                other => other,
            };
            let thing = tables.insert(kind, id, (shown, face), standing);
            if standing == Standing::Offered && stock.is_listed() {
                let digest = digest_of(face.definition.taken(Structured::Any));
                let (place, definition) = ((Arc::clone(id), position), face.definition.clone());
                entries.push(Entry { place, definition, thing, digest });
            }
        }
    }
    List::new(kind, entries, mark(absent.iter()))
}

/// What each page says of the upstreams it lacks (spec T-13).
pub(super) fn mark<'a>(absent: impl Iterator<Item = &'a Arc<str>>) -> String {
    let names: Vec<String> = absent.map(|id| wire::code::quote(id)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(",\"_meta\":{{\"portcullis/incomplete\":[{}]}}", names.join(","))
}

impl Tables {
    fn insert(
        &mut self,
        kind: Kind,
        id: &Arc<str>,
        (shown, face): (&Shown, &Face),
        standing: Standing,
    ) -> Arc<Thing> {
        let (table, sort) = match kind {
            Kind::Tools => (&mut self.tools, Sort::Tool),
            Kind::Prompts => (&mut self.prompts, Sort::Prompt),
            Kind::Resources | Kind::Templates => (&mut self.resources, Sort::Resource),
        };
        let thing = Arc::new(Thing {
            upstream: Arc::clone(id),
            sort,
            exposed: face.exposed.clone(),
            native: shown.native.clone(),
            digest: Some(shown.digest),
            standing,
            mirrors: Arc::clone(&shown.mirrors),
            tasks: shown.tasks,
            facts: Arc::clone(&shown.facts),
        });
        // Ambiguous names are on the shelf as excluded, all of them; whichever stands here says no.
        table.insert(face.exposed.clone(), Arc::clone(&thing));
        thing
    }
}

/// Whether a URI that no list mentions may be read.
pub(super) fn uri_standing(native: &str, filters: &[&Filter; 2]) -> Standing {
    match names::uri_flaw(native) {
        Some(why) => Standing::Excluded(why),
        None if filters.iter().all(|filter| admits_uri(filter, native)) => Standing::Offered,
        None => Standing::Filtered,
    }
}

/// A URI passes a filter as it is written and as it reads when decoded: one thing has many spellings.
pub(super) fn admits_uri(filter: &Filter, native: &str) -> bool {
    filter.admits(native) && (filter.is_open() || filter.admits(&names::percent_decoded(native)))
}

fn filter_of(server: &config::VirtualServer, kind: Kind) -> &Filter {
    match kind {
        Kind::Tools => &server.tools,
        Kind::Prompts => &server.prompts,
        Kind::Resources | Kind::Templates => &server.resources,
    }
}

/// Each upstream's instructions under its id, so that a model knows which tools they speak of. Lines are
/// indented: no upstream writes a heading in another's name. Where names are bare, there is nothing to tell apart.
fn instructions(selected: &[(&Arc<str>, &Stock)], naming: Naming) -> Vec<(Arc<str>, String)> {
    let said = selected.iter().filter_map(|(id, stock)| Some((*id, stock.instructions.as_deref()?)));
    let is_bare = matches!((naming, selected), (Naming::Bare, [_]));
    let mut room = INSTRUCTIONS;
    let mut parts = Vec::new();
    for (id, text) in said {
        let part = if is_bare { text.to_owned() } else { headed(id, text) };
        if let Some(left) = room.checked_sub(text.len()) {
            room = left;
            parts.push((Arc::clone(id), part));
        }
    }
    parts
}

fn headed(id: &str, text: &str) -> String {
    let mut part = format!("# {id}");
    for line in text.lines() {
        part.push_str("\n  ");
        part.extend(line.chars().filter(|c| !c.is_control()));
    }
    part
}
