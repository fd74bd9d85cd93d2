//! The life of one message, from arrival to reply. Read `pipeline.rs` first.

mod approval;
mod arrival;
mod asking;
mod audit;
mod authn;
mod batch;
mod bridge;
mod catalog;
mod credential;
mod era;
mod error;
mod gateway;
mod handshake;
mod limits;
mod logging;
mod metadata;
mod pipeline;
mod policy;
mod relay;
mod router;
mod running;
mod seal;
mod session;
mod snapshot;
mod status;
mod store;
mod subscriptions;
mod taint;
mod tasks;
mod telemetry;
mod tokens;
mod visit;

pub use arrival::{
    Arrival, BodyError, Credentials, Endpoint, Head, Listening, Mirrored, Reply, Transport, Unread, Verb,
};
pub use authn::{IdentityError, JwksError, KeysError, SiteError};
pub use gateway::{Gateway, OpenError, Reloaded};
pub use metadata::endpoint_url;
pub use policy::{
    PolicyError, Question, ToolFacts, Trial, TrialError, Tried, View, check_condition, check_resources,
};
pub use running::{Following, Out, Running};
pub use store::StoreError;
pub use tokens::{ApiKey, JwtRequest, KeyRequest, NewJwt, NewKey, Revocation, Tokens, TokensError};

pub use upstream::supervisor;
