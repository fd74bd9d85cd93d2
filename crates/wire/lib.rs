//! MCP as bytes: frames, methods, revisions.
//!
//! One message is a [`Frame`]: the bytes as they arrived and where their parts stand. Nothing here waits,
//! opens a socket, reads a clock or keeps a tree of values: what we own no reason to change leaves as it
//! came.

pub mod code;
pub mod digest;
pub mod envelope;
pub mod era;
pub mod frame;
pub mod headers;
pub mod id;
pub mod input;
pub mod listing;
pub mod meta;
pub mod method;
pub mod mirror;
pub mod pieces;
mod scan;
pub mod shape;
#[cfg(test)]
mod spelled;
pub mod sse;
pub mod task;
mod text;
pub mod uris;
mod walk;

pub use code::{failure, quote, success};
pub use digest::{Digest, digest, digest_of};
pub use envelope::{Envelope, EnvelopeError, client_meta, envelope};
pub use era::{Era, Revision};
pub use frame::{Change, Edit, Frame, FrameError, Shape, readable_id, split};
pub use headers::{HeaderError, Sent};
pub use id::Id;
pub use listing::{Broken, Item, ListingError, Page, read_page, render};
pub use method::{Capability, Form, Kind, Method, Names, Plan, Row, Side};
pub use mirror::{Mirror, check_mirrors, mirrored, mirrors};
pub use pieces::Pieces;
pub use scan::Budget;
pub use shape::Hints;
pub use uris::Carrier;
