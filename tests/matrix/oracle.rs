//! What must become of a cell, derived from the table of methods, from what the gateway promised, and from the table of
//! codes (spec section 10).

use serde_json::Value;
use wire::{Capability, Form, Method, Names, Plan, Revision, Side, code};

use super::cell::{Cell, Decision};

/// What the gateway said at the two endpoints that it can, to each era.
pub(super) struct Promises {
    pub(super) legacy: Value,
    pub(super) modern: Value,
}

/// Where a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// With an error; no upstream hears of it.
    Refused,
    /// With a result, or with nothing; no upstream hears of it.
    Here,
    /// At the upstream, under its own name for the target.
    Forwarded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) status: u16,
    pub(super) code: Option<i64>,
    pub(super) fate: Fate,
}

impl Promises {
    fn has(&self, capability: Capability, modern: bool) -> bool {
        let said = if modern { &self.modern } else { &self.legacy };
        let names = |key: &str| !said[key].is_null();
        match capability {
            Capability::Tools => names("tools"),
            Capability::Prompts => names("prompts"),
            Capability::Resources => names("resources"),
            Capability::ResourcesSubscribe => said["resources"]["subscribe"] == true,
            Capability::Completions => names("completions"),
            Capability::Logging => names("logging"),
            Capability::Tasks if modern => !said["extensions"]["io.modelcontextprotocol/tasks"].is_null(),
            Capability::Tasks => names("tasks"),
            Capability::TasksList => !modern && !said["tasks"]["list"].is_null(),
            Capability::Subscriptions => names("tools") || names("prompts") || names("resources"),
            // Of the client, which declares nothing here.
            Capability::Sampling | Capability::Roots | Capability::Elicitation => false,
        }
    }
}

/// An error of ours with the status that its code has (spec section 10, B-10, D4).
fn refused(code: i64, modern: bool) -> Expected {
    let status = match code {
        code::METHOD_NOT_FOUND if modern => 404,
        code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_VERSION => 400,
        _ => 200,
    };
    Expected { status, code: Some(code), fate: Fate::Refused }
}

/// An error of the envelope, or of HTTP.
fn bad(code: i64) -> Expected {
    Expected { status: 400, code: Some(code), fate: Fate::Refused }
}

/// What must become of the cell.
pub(super) fn expected(cell: &Cell, promises: &Promises) -> Expected {
    let here = Expected { status: 200, code: None, fate: Fate::Here };
    if let Some(expected) = undressed(cell) {
        return expected;
    }
    let row = cell.method.row();
    let modern = cell.is_modern();
    let revision = if modern { Revision::R2026_07_28 } else { cell.revision };
    if !cell.asks() {
        return Expected { status: 202, ..here }; // spec B-06, H-06
    }
    let exists = row.exists_in(revision) && row.form == Form::Request;
    let misheaded = matches!(cell.decision, Decision::WrongMethodHeader | Decision::WrongNameHeader);
    if exists && misheaded {
        return refused(code::HEADER_MISMATCH, modern); // spec H-28, H-36
    }
    let promised = row.capability.is_none_or(|capability| promises.has(capability, modern));
    if !exists || row.side == Side::Server || !promised {
        return refused(code::METHOD_NOT_FOUND, modern); // spec B-10, B-11, B-33
    }
    match (cell.decision, row.names) {
        // No client of the matrix has a task, and no modern one declared that it could (spec U-33).
        (_, Names::Task) if modern => refused(code::MISSING_CLIENT_CAPABILITY, modern),
        (_, Names::Task) => refused(code::INVALID_PARAMS, modern),
        (Decision::Malformed, _) => refused(code::INVALID_PARAMS, modern),
        // Hidden is missing, and missing has a code of its own for resources of the legacy era (spec T-04, R-05, K-06).
        (Decision::Hidden | Decision::Unknown, Names::Resource) if !modern => {
            refused(code::RESOURCE_NOT_FOUND, modern)
        }
        (Decision::Hidden | Decision::Unknown, _) => refused(code::INVALID_PARAMS, modern),
        (_, _) => match row.plan {
            Plan::Forward => Expected { fate: Fate::Forwarded, ..here },
            // What is kept or told on somebody's behalf leaves as a message of ours, if at all.
            Plan::Answer | Plan::List(_) | Plan::Relay | Plan::Session | Plan::Listen | Plan::Task => here,
        },
    }
}

/// What is said of a message before anybody looks at what it asks for (spec 9.2).
fn undressed(cell: &Cell) -> Option<Expected> {
    let opens = cell.method == Method::Initialize && cell.asks();
    match cell.decision {
        Decision::LegacyEnvelope => return Some(bad(code::UNSUPPORTED_VERSION)), // spec E-06
        Decision::NoSession | Decision::OtherEra if !cell.is_modern() => {
            return Some(match cell.method {
                _ if opens => Expected { status: 200, code: None, fate: Fate::Here }, // spec E-02
                // spec E-05, and E-03
                Method::Discover => bad(code::INVALID_PARAMS),
                _ if cell.decision == Decision::OtherEra => bad(code::INVALID_PARAMS),
                _ => bad(code::INVALID_REQUEST), // spec H-12
            });
        }
        _ => (),
    }
    // Bare discovery has no session either (spec E-05).
    (cell.method == Method::Discover && !cell.is_modern()).then(|| bad(code::INVALID_PARAMS))
}
