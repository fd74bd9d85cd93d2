//! What a running gateway knows of its tools, for whoever tries rules elsewhere.

use std::collections::BTreeMap;

use admission::{Sort, Thing, Trust};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::gateway::Gateway;

/// What rules may know of one tool.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolFacts {
    /// `UPSTREAM__NAME`, as rules know it.
    pub name: String,
    /// `trusted`, `standard` or `untrusted`.
    pub trust: String,
    /// Whether it may destroy something.
    pub destructive: bool,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether the operator says that it carries data out.
    pub egress: bool,
    /// The scopes that a call of it needs.
    pub scopes: Vec<String>,
    /// What its server says of it, where that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<RawValue>>,
}

impl From<&Thing> for ToolFacts {
    fn from(thing: &Thing) -> ToolFacts {
        let facts = &thing.facts;
        let annotations =
            facts.annotations.as_ref().and_then(|raw| RawValue::from_string(raw.to_string()).ok());
        let trust = match facts.trust {
            Trust::Untrusted => config::Trust::Untrusted,
            Trust::Standard => config::Trust::Standard,
            Trust::Trusted => config::Trust::Trusted,
        };
        ToolFacts {
            name: facts.name.to_string(),
            trust: trust.word().to_owned(),
            destructive: facts.destructive,
            read_only: facts.read_only,
            egress: facts.egress,
            scopes: facts.scopes.iter().map(ToString::to_string).collect(),
            annotations,
        }
    }
}

impl Gateway {
    /// The tools of a tenant, in the order of their names, also those that no filter or rule lets through. None when there is
    /// no such tenant.
    pub fn tools(&self, tenant: &str) -> Option<Vec<ToolFacts>> {
        let catalogs = self.catalogs();
        let catalog = catalogs.iter().find(|catalog| **catalog.tenant.name() == *tenant)?;
        let mut found: BTreeMap<String, ToolFacts> = BTreeMap::new();
        for view in catalog.views() {
            for thing in view.things(Sort::Tool) {
                let tool = ToolFacts::from(&**thing);
                found.entry(tool.name.clone()).or_insert(tool);
            }
        }
        Some(found.into_values().collect())
    }
}
