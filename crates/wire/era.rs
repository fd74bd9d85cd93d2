//! The dated revisions of MCP, the two eras they fall into, and what each has (spec 5.0).

/// Whether peers shake hands and keep sessions, or every request says all it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: `initialize`, sessions, requests in both directions.
    Legacy,
    /// From 2026-07-28: no handshake, no session, no request from the server.
    Modern,
}

/// A dated revision, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Revision {
    /// 2024-11-05.
    R2024_11_05,
    /// 2025-03-26.
    R2025_03_26,
    /// 2025-06-18.
    R2025_06_18,
    /// 2025-11-25.
    R2025_11_25,
    /// 2026-07-28.
    R2026_07_28,
}

impl Revision {
    /// Every revision, the oldest first.
    pub const ALL: [Revision; 5] = [
        Revision::R2024_11_05,
        Revision::R2025_03_26,
        Revision::R2025_06_18,
        Revision::R2025_11_25,
        Revision::R2026_07_28,
    ];
    /// Those that `initialize` can agree on, the oldest first.
    pub const LEGACY: [Revision; 4] =
        [Revision::R2024_11_05, Revision::R2025_03_26, Revision::R2025_06_18, Revision::R2025_11_25];
    /// What `initialize` answers to a revision it does not know, and to a modern one (spec B-17, B-18).
    pub const LATEST_LEGACY: Revision = Revision::R2025_11_25;

    /// As it is written on the wire.
    pub const fn text(self) -> &'static str {
        match self {
            Revision::R2024_11_05 => "2024-11-05",
            Revision::R2025_03_26 => "2025-03-26",
            Revision::R2025_06_18 => "2025-06-18",
            Revision::R2025_11_25 => "2025-11-25",
            Revision::R2026_07_28 => "2026-07-28",
        }
    }

    /// The revision written so.
    pub fn parse(text: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.text() == text)
    }

    /// The era it belongs to.
    pub const fn era(self) -> Era {
        match self {
            Revision::R2024_11_05 | Revision::R2025_03_26 | Revision::R2025_06_18 | Revision::R2025_11_25 => {
                Era::Legacy
            }
            Revision::R2026_07_28 => Era::Modern,
        }
    }

    /// Arrays of messages are received (spec B-07).
    pub fn has_batches(self) -> bool {
        self == Revision::R2025_03_26
    }

    /// Audio content, tool annotations, a message in progress, the `completions` capability.
    pub fn has_audio(self) -> bool {
        self >= Revision::R2025_03_26
    }

    /// A message in progress notifications (spec U-11).
    pub fn has_progress_message(self) -> bool {
        self >= Revision::R2025_03_26
    }

    /// Completion is announced as a capability; the method itself is older (spec K-01).
    pub fn has_completions_capability(self) -> bool {
        self >= Revision::R2025_03_26
    }

    /// `structuredContent` and `outputSchema` (spec T-10).
    pub fn has_structured_content(self) -> bool {
        self >= Revision::R2025_06_18
    }

    /// `structuredContent` may be any JSON value, not only an object.
    pub fn has_any_structured_content(self) -> bool {
        self.era() == Era::Modern
    }

    /// `resource_link` content.
    pub fn has_resource_links(self) -> bool {
        self >= Revision::R2025_06_18
    }

    /// `context` in completion requests (spec K-04).
    pub fn has_completion_context(self) -> bool {
        self >= Revision::R2025_06_18
    }

    /// The client repeats the revision in a header (spec H-16).
    pub fn has_version_header(self) -> bool {
        self >= Revision::R2025_06_18
    }

    /// Forms asked of a person in the middle of a call.
    pub fn has_elicitation(self) -> bool {
        self >= Revision::R2025_06_18
    }

    /// Icons, and sampling with tools.
    pub fn has_icons(self) -> bool {
        self >= Revision::R2025_11_25
    }

    /// Tasks as part of the core protocol, with `execution.taskSupport` (spec T-15, U-30).
    pub fn has_core_tasks(self) -> bool {
        self == Revision::R2025_11_25
    }

    /// The first event of a stream is an id with empty data (spec H-23).
    pub fn has_stream_priming(self) -> bool {
        self == Revision::R2025_11_25
    }

    /// `initialize`, `ping` and requests from the server.
    pub fn has_handshake(self) -> bool {
        self.era() == Era::Legacy
    }

    /// Sessions, the GET stream and resumption.
    pub fn has_sessions(self) -> bool {
        self.era() == Era::Legacy && self >= Revision::R2025_03_26
    }

    /// Every result says of what type it is, and how long it may be kept (spec B-30, U-18).
    pub fn has_result_type(self) -> bool {
        self.era() == Era::Modern
    }
}

#[cfg(test)]
mod tests;
