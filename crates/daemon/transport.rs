//! Between HTTP and the pipeline. Transports translate; they decide nothing.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod cors;
pub(crate) mod door;
pub(crate) mod forwarded;
pub(crate) mod legacy_sse;
pub(crate) mod refusal;
pub(crate) mod streamable_http;
