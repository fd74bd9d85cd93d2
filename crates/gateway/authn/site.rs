//! An issuer that says itself where its endpoints are.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use tokio::time::Instant;
use upstream::egress::{self, Client, Destination, Metadata, MetadataError, Named};
use url::Url;

/// Metadata are read again after so long.
const REFRESH: Duration = Duration::from_secs(60 * 60);

/// The metadata of one issuer, kept for a while.
pub(super) struct Site {
    issuer: Arc<str>,
    /// The URL that the issuer is called.
    pub(super) url: Url,
    known: ArcSwapOption<(Instant, Metadata)>,
}

/// Why an issuer does not say where something is. Names neither a host nor what was answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// It has no metadata.
    #[error("{0}")]
    Metadata(#[from] MetadataError),
    /// They do not say it.
    #[error("its metadata name no `{0}`")]
    Unnamed(&'static str),
    /// They say it, and we do not go there.
    #[error("its metadata lead where we do not go: {0}")]
    Refused(#[from] egress::Refusal),
}

impl Site {
    /// Nothing is read yet.
    pub(super) fn new(issuer: Arc<str>, url: Url) -> Site {
        Site { issuer, url, known: ArcSwapOption::empty() }
    }

    /// The metadata, from memory if they were read lately.
    pub(super) async fn metadata(&self, client: &Client) -> Result<Arc<(Instant, Metadata)>, SiteError> {
        if let Some(known) = self.known.load_full()
            && known.0.elapsed() < REFRESH
        {
            return Ok(known);
        }
        let read = Arc::new((Instant::now(), egress::metadata(client, &self.issuer, &self.url).await?));
        self.known.store(Some(Arc::clone(&read)));
        Ok(read)
    }

    /// What was read is of no use any more.
    pub(super) fn forget(&self) {
        self.known.store(None);
    }

    /// Where this member of the metadata leads. The operator named the host of the issuer; any other is a stranger's word
    /// (spec A-27).
    pub(super) fn leads(&self, name: &'static str, text: Option<&str>) -> Result<Destination, SiteError> {
        let text = text.ok_or(SiteError::Unnamed(name))?;
        Ok(egress::check(text, &Named::of([&self.url]))?)
    }
}
