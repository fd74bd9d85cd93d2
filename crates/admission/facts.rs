//! What rules may know about a tool, a prompt or a resource beyond its name.

/// How far an upstream is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// Nothing it says is taken on faith.
    Untrusted,
    /// The usual tier.
    #[default]
    Standard,
    /// Run or reviewed by the operator.
    Trusted,
}

impl Trust {
    /// The word in configurations and rules.
    pub fn word(self) -> &'static str {
        match self {
            Trust::Untrusted => "untrusted",
            Trust::Standard => "standard",
            Trust::Trusted => "trusted",
        }
    }
}

/// What is known about one thing of an upstream.
///
/// What a server says of its own tools counts only where the operator trusts it; of any other tool the worst is
/// assumed (security row 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name that rules know it by: `UPSTREAM__NAME` also where a virtual server has bare names. Of a resource
    /// the native URI, in the form in which rules judge it ([`Facts::resource`]).
    pub name: Box<str>,
    /// How far its upstream is trusted.
    pub trust: Trust,
    /// Whether it may destroy something.
    pub destructive: bool,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether the operator says that it carries data out.
    pub egress: bool,
    /// The OAuth scopes that a call of it needs.
    pub scopes: Box<[Box<str>]>,
    /// What its server says of it, as raw JSON; none where that does not count.
    pub annotations: Option<Box<str>>,
}

impl Facts {
    /// Of a resource. A URI that could be read as another has no form to be judged in, and stays as it is written:
    /// rules deny it.
    pub fn resource(uri: &str) -> Facts {
        Facts::unknown(crate::policy::judged(uri).unwrap_or_else(|| uri.to_owned()))
    }

    /// Of something nobody vouches for: destructive, and not read-only.
    pub fn unknown(name: impl Into<Box<str>>) -> Facts {
        Facts {
            name: name.into(),
            trust: Trust::default(),
            destructive: true,
            read_only: false,
            egress: false,
            scopes: Box::default(),
            annotations: None,
        }
    }
}
