//! Configuration files in, a checked model or all problems out.

use std::io;
use std::path::{Path, PathBuf};

mod address;
mod check;
mod choice;
mod credential;
mod expand;
mod filter;
mod form;
mod model;
mod problem;
mod quantity;
mod raw;
mod reader;
mod reference;
mod schema;
mod section;
mod tree;
mod word;
mod words;

#[cfg(test)]
mod tests;

pub use address::is_loopback;
pub use check::load;
pub use filter::{Filter, Pattern, PatternError};
pub use ipnet::IpNet;
pub use model::{
    Algorithm, Approvers, Asked, Asking, Asks, Audit, AuditSink, ClientProof, Config, Counted, Credential,
    Deed, Durability, Effect, ErrorStatus, Expectation, Fact, Grant, Identity, Introspection, Issuer,
    IssuerClaims, JwksSource, LOCAL_ISSUER, LimitRule, Limits, Mode, Naming, Per, Policy, PolicyRule,
    PolicyTest, Principals, Rate, Runaway, Secret, ServerTls, SessionLimits, Share, Signing, Sse, Subject,
    Tenant, TenantLimits, TestFacts, TestPrincipal, Timeouts, TokenProof, TokenServer, Transport, Trust,
    Upstream, VirtualServer,
};
pub use problem::{Problem, Severity, render};
pub use reference::reference;
pub use schema::schemas;
pub use url::Url;

/// All that loading may ask of the outside: this crate does no I/O of its own.
pub trait Files {
    /// The text of a file; not UTF-8 is an error.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// The files that match a glob, in any order.
    fn matching(&self, pattern: &Path) -> io::Result<Vec<PathBuf>>;
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// A secret.
    fn secret(&self, name: &str) -> Option<String>;
    /// A secret in a folder of the operator's; where there are no folders there is none.
    fn secret_in(&self, _folder: &Path, _name: &str) -> Option<String> {
        None
    }
    /// The absolute path of a stdio command, looked up as the process would.
    fn program(&self, name: &str, dir: Option<&Path>) -> Option<PathBuf>;
    /// Whether the condition of a rule about such things compiles; this crate knows no expressions. Without any the rule
    /// is about everything.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    fn condition(&self, text: &str, about: &[Subject]) -> Result<(), Vec<Flaw>>;
    /// Whether a glob over the URIs of resources can match one, in the form in which rules judge them.
    ///
    /// # Errors
    /// With what keeps it from that.
    fn resources(&self, _glob: &str) -> Result<(), Flaw> {
        Ok(())
    }
}

/// One thing that is wrong with a condition. The message goes on after the text it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What is wrong.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The byte of the text where it goes wrong, and so many bytes from there.
    pub at: Option<(usize, usize)>,
}

/// A configuration that is fit to run.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The checked model.
    pub config: Config,
    /// What the operator should know all the same.
    pub warnings: Vec<Problem>,
    /// The files it was read from, the main one first.
    pub files: Vec<PathBuf>,
}
