//! Looks names up for a connection, and gives it the addresses that may be gone to.

use crate::egress::{Refusal, is_public};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_service::Service;

/// For `HttpConnector::new_with_resolver`: what it returns is what is connected to, so nothing can change in between.
/// A host that is an address is not looked up: [`check`](super::check) looks at those.
#[derive(Debug, Clone)]
pub struct Resolver {
    system: GaiResolver,
    outside_only: bool,
}

impl Resolver {
    /// Addresses of the public internet only. One other among them, and there is none: such a name is not to be trusted.
    pub fn outside() -> Self {
        Self { system: GaiResolver::new(), outside_only: true }
    }

    /// Every address, for names that the operator wrote himself.
    pub fn anywhere() -> Self {
        Self { system: GaiResolver::new(), outside_only: false }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (looking_up, outside_only) = (self.system.call(name), self.outside_only);
        Box::pin(async move {
            let found: Vec<SocketAddr> = looking_up.await?.collect();
            match outside_only {
                true => outside(found).map(Vec::into_iter),
                false => Ok(found.into_iter()),
            }
        })
    }
}

pub(super) fn outside(found: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    match found.iter().all(|address| is_public(address.ip())) {
        true => Ok(found),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, Refusal::Address)),
    }
}

/// The refusal of a resolver, if it is that what stopped a connection.
pub(super) fn refusal(cause: &(dyn Error + 'static)) -> Option<Refusal> {
    if let Some(refusal) = cause.downcast_ref::<Refusal>() {
        return Some(*refusal);
    }
    cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<Refusal>().copied()
}
