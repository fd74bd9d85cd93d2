//! One server over HTTP: POSTs out, answers back, and the streams beside them (spec 2, 3).
//!
//! `opening.rs` finds out what the server speaks, `post.rs` is how a request goes, `site.rs` is what all tasks here share,
//! `connections.rs` is what they go by.

mod answer;
mod client;
mod connections;
mod dial;
pub(crate) mod heads;
mod legacy_sse;
mod listen;
mod opening;
pub(crate) mod post;
mod session;
mod site;
mod socket;
mod tls;

pub(crate) use site::Site;
pub(crate) use tls::of as tls_of;

use crate::counters::Counters;
use crate::declared::Behalf;
use crate::link::{Carrier, Link};
use crate::peer::{Ending, Fault};
use crate::spec::{Address, Spec};
use client::Client;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a server may take to hear that its session is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// A server and the tasks that talk to it.
pub(crate) struct Remote {
    site: Arc<Site>,
    posts: JoinHandle<()>,
}

impl Remote {
    /// Makes ready to talk. Nothing is sent yet; the error says what is wrong with the address.
    pub(crate) fn start(
        spec: &Arc<Spec>,
        address: &Address,
        behalf: &Behalf,
        counters: &Arc<Counters>,
    ) -> Result<Self, String> {
        let client = Client::new(address, behalf)?;
        let (link, queue) = Link::new(Arc::clone(counters), Carrier::Http, spec.line_cap, behalf.clone());
        let site = Site::new(Arc::clone(spec), address, client, link);
        site.link.ask_at(&site);
        let posts = tokio::spawn(post::carry(Arc::clone(&site), queue));
        let (stop, swept) = (site.stop.clone(), Arc::clone(&site));
        site.listeners.spawn(async move { stop.run_until_cancelled(swept.client.connections.sweep()).await });
        Ok(Self { site, posts })
    }

    pub(crate) fn site(&self) -> &Arc<Site> {
        &self.site
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.site.link
    }

    /// Returns when the server is no longer of use. May be dropped at any await.
    pub(crate) async fn fault(&mut self) -> Fault {
        self.site.faults.first().await
    }

    /// Ends the conversation and every task of it. All open requests have failed by then.
    pub(crate) async fn end(mut self, fault: Fault) -> Ending {
        let why = match fault {
            Fault::Closed => "it ended its event stream".to_owned(),
            Fault::LongLine => format!("it sent a message of more than {} bytes", self.site.spec.line_cap),
            Fault::Hung | Fault::Deaf => "it stopped answering".to_owned(),
            Fault::Forgetful => "it forgot what was agreed on".to_owned(),
            Fault::Unwanted => "it was stopped".to_owned(),
        };
        self.site.link.close(&why);
        self.site.stop.cancel();
        // What is still to be told is told, by tasks that each have their own end.
        if timeout(self.site.spec.patience.eof_grace, &mut self.posts).await.is_err() {
            self.posts.abort();
            let _cancelled = self.posts.await;
        }
        self.site.listeners.close();
        self.site.listeners.wait().await;
        if matches!(fault, Fault::Unwanted | Fault::Closed | Fault::LongLine) {
            // A server that does not hear it forgets by itself.
            let _unheard = timeout(FAREWELL, self.site.leave()).await;
        }
        self.site.client.connections.close();
        Ending { detail: why.clone(), why }
    }
}

#[cfg(test)]
mod tests;
