//! May this call leave? Pure: no runtime, no clock, no socket, no protocol revision.
//!
//! Read `call.rs` for what is judged, `decision.rs` for how the answers combine, then one file a check.

mod call;
mod claims;
mod facts;

mod decision;
mod pins;
mod policy;
mod scopes;
mod screen;
mod visibility;

mod flaw;
mod json;
mod nearest;

pub use call::{Call, Grant, Principal, Scene, Sort, Standing, Target, TenantId, Thing};
pub use claims::Claims;
pub use decision::{
    Admitted, Check, CheckName, Checks, Decision, Denial, Held, Notes, Refusal, Rule, Verdict,
};
pub use facts::{Facts, Trust};
pub use flaw::Flaw;
pub use pins::Pins;
pub use policy::{
    AskKind, Draft, Effect, Glob, Opinion, Policy, RuleError, Rules, Said, Shadow, What, Who,
    check_condition, resources_glob,
};
pub use scopes::Scopes;
pub use screen::Screen;
pub use visibility::Visibility;

use nearest::nearest;
