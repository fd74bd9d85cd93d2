//! Config → snapshot: everything a call is decided by, compiled once and fixed for the whole of a call.

use std::{collections::HashMap, sync::Arc};

use admission::{Checks, TenantId};

use crate::{arrival::Endpoint, authn::Authn, catalog::Catalog, limits};

/// One compiled configuration. A call sees one, except when decided again after an approval (invariant 6).
pub(crate) struct Snapshot {
    /// Who may be told apart.
    pub(crate) authn: Authn,
    /// What is asked of every call.
    pub(crate) checks: Checks,
    /// How much may be asked for.
    pub(crate) limits: limits::Rules,
    /// What each tenant offers. The catalogs themselves go on changing with their upstreams.
    pub(crate) catalogs: HashMap<TenantId, Arc<Catalog>>,
}

/// The name of the virtual server at `/mcp`.
const DEFAULT: &str = "default";

impl Snapshot {
    /// The catalog and virtual server an endpoint stands for; none when there is no such server.
    pub(crate) fn endpoint(
        &self,
        tenant: &TenantId,
        endpoint: &Endpoint,
    ) -> Option<(Arc<Catalog>, Arc<str>)> {
        let catalog = self.catalogs.get(tenant)?;
        let server = catalog.server(endpoint.server.as_deref().unwrap_or(DEFAULT))?;
        Some((Arc::clone(catalog), server))
    }
}
