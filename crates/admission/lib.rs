//! May this call leave? Pure: no runtime, no clock, no socket, no protocol revision.
//!
//! Read `call.rs` for what is judged, `decision.rs` for how the answers combine, then one file a check.

mod call;
mod decision;
mod pins;
mod policy;
mod screen;
mod visibility;

pub use call::{Call, Grant, Principal, Sort, Standing, Target, TenantId, Thing};
pub use decision::{Admitted, Check, CheckName, Checks, Decision, Denial, Held, Rule, Verdict};
pub use pins::Pins;
pub use policy::Policy;
pub use screen::Screen;
pub use visibility::Visibility;
