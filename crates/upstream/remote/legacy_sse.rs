//! HTTP+SSE of 2024-11-05: one stream for all that comes back, another URL for all that goes there (spec S-07 to S-09).

use crate::error::UpstreamError;
use crate::hello;
use crate::peer::Fault;
use crate::probe::{self, Opened};
use crate::remote::answer::Events;
use crate::remote::session::Session;
use crate::remote::site::{Site, refusal};
use crate::spec::EraFound;
use http::Uri;
use std::sync::Arc;
use url::Url;
use wire::sse::Event;

impl Site {
    /// Opens the stream, waits for the `endpoint` event and shakes hands. The caller bounds the time in all (spec S-09).
    pub(crate) async fn open_legacy_sse(self: &Arc<Self>) -> Result<Opened, UpstreamError> {
        let session = Session::default();
        let mut events = match self.stream(&session, None).await? {
            Ok(events) => events,
            Err(status) if status.is_client_error() => {
                return Err(UpstreamError::garbled("there is no MCP endpoint at its URL"));
            }
            Err(status) => return Err(refusal(status)),
        };
        let endpoint = endpoint(&mut events, self.client.uri()).await?;
        let _first = self.endpoint.set(self.client.target_at(&endpoint));
        let site = Arc::clone(self);
        self.listeners.spawn(async move {
            let stop = site.stop.clone();
            if let Some(fault) = stop.run_until_cancelled(site.receive_all(events)).await {
                site.faults.raise(fault);
            }
        });
        let mut greeting = probe::initialize(&self.link, &self.spec)?;
        let facts = probe::greet(&mut greeting).await?;
        let status = self.deliver(hello::INITIALIZED, &session).await?;
        if !status.is_success() {
            return Err(refusal(status));
        }
        Ok(Opened { facts, found: EraFound::Legacy })
    }

    /// Reads until the stream ends, which ends the session too.
    async fn receive_all(&self, mut events: Events) -> Fault {
        loop {
            match events.next().await {
                Ok(Some(text)) => {
                    self.link.hear();
                    // What is no message was counted.
                    let _noise = self.link.receive(text);
                }
                Ok(None) => return Fault::Closed,
                Err(UpstreamError::TooLarge { .. }) => return Fault::LongLine,
                Err(_) => return Fault::Closed,
            }
        }
    }
}

/// Where to POST to: what the first event says, on the same origin or not at all (spec S-08).
async fn endpoint(events: &mut Events, stream: &Uri) -> Result<Uri, UpstreamError> {
    let text = loop {
        match events.event().await? {
            Some(Event { name, data, .. }) if &*name == "endpoint" => break data,
            Some(_) => {}
            None => return Err(UpstreamError::garbled("its event stream ended without an endpoint")),
        }
    };
    let malformed = || UpstreamError::garbled("its endpoint is no URL");
    let stream = Url::parse(&stream.to_string()).map_err(|_| malformed())?;
    let text = std::str::from_utf8(&text).map_err(|_| malformed())?;
    let mut endpoint = stream.join(text.trim()).map_err(|_| malformed())?;
    if endpoint.origin() != stream.origin()
        || !endpoint.username().is_empty()
        || endpoint.password().is_some()
    {
        return Err(UpstreamError::garbled("its endpoint is on another origin"));
    }
    endpoint.set_fragment(None);
    endpoint.as_str().parse().map_err(|_| malformed())
}
