//! Name → target: what a message is about, found in one view.

use std::borrow::Cow;

use admission::{Sort, Target};
use serde::Deserialize;
use wire::{Era, Form, Frame, Method, Names, Plan, Shape, Side};

use super::View;
use crate::{
    error::CatalogError,
    tasks::{TAKES_TASKS, takes_tasks},
    visit::Visit,
};

/// The largest list of things to listen to, in bytes.
const LISTEN_BYTES: usize = 64 * 1024;

/// The method of a message and what it is about. A task is about the tool it came from, which `tool` knows. Hidden and
/// missing names are bound all the same: the checks deny them, at one place.
///
/// # Errors
/// When the method does not exist here, or the parameter that names the target cannot be read.
pub(crate) fn bind(
    visit: &Visit,
    view: &View,
    frame: &Frame,
    tool: &dyn Fn(&str) -> Option<Box<str>>,
) -> Result<(Method, Target), CatalogError> {
    let unknown = || CatalogError::Method(frame.method_name().chars().take(64).collect());
    let method = frame.method().ok_or_else(unknown)?;
    let row = method.row();
    let sent_as = match frame.shape() {
        Shape::Request => Form::Request,
        Shape::Notification => Form::Notification,
        Shape::Result | Shape::Failure => return Err(unknown()),
    };
    // What nobody could carry is said before whether it is carried at all.
    if row.plan == Plan::Listen && frame.params().is_some_and(|params| params.len() > LISTEN_BYTES) {
        return Err(CatalogError::Parameter("notifications"));
    }
    let ours = matches!(row.side, Side::Client | Side::Both) && row.form == sent_as;
    let promised = row.capability.is_none_or(|capability| visit.promises(capability, view));
    if !ours || !row.exists_in(visit.revision()) || !promised {
        return Err(unknown());
    }
    let target = match (row.plan, row.names) {
        (Plan::List(kind), _) => Target::Listing(kind),
        (_, Names::Tool) => named(view, Sort::Tool, text(frame, "name")?),
        (_, Names::Prompt) => named(view, Sort::Prompt, text(frame, "name")?),
        (_, Names::Resource) => named(view, Sort::Resource, text(frame, "uri")?),
        (_, Names::Reference) => {
            let reference = Reference::read(frame)?;
            named(view, reference.sort, reference.exposed)
        }
        (Plan::Task, _) => {
            if visit.era() == Era::Modern && !takes_tasks(frame) {
                return Err(CatalogError::Undeclared(TAKES_TASKS)); // spec U-33
            }
            let exposed = tool(&text(frame, "taskId")?).ok_or(CatalogError::Task)?;
            named(view, Sort::Tool, exposed.into_string().into())
        }
        (_, Names::Nothing | Names::Request | Names::Token | Names::Task) => Target::Ourselves,
    };
    Ok((method, target))
}

fn named(view: &View, sort: Sort, exposed: Cow<'_, str>) -> Target {
    match view.named(sort, &exposed) {
        Some(thing) => Target::Thing(thing),
        None => Target::Missing(sort, exposed.into()),
    }
}

fn text<'a>(frame: &'a Frame, key: &'static str) -> Result<Cow<'a, str>, CatalogError> {
    frame.param_text(key).ok_or(CatalogError::Parameter(key))
}

/// What a completion is asked for (spec K-02).
pub(crate) struct Reference<'a> {
    sort: Sort,
    exposed: Cow<'a, str>,
    title: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct RawReference<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
}

impl<'a> Reference<'a> {
    /// Reads `params.ref`.
    ///
    /// # Errors
    /// When it is neither a prompt's name nor a resource's URI.
    pub(crate) fn read(frame: &'a Frame) -> Result<Reference<'a>, CatalogError> {
        let bad = || CatalogError::Parameter("ref");
        let raw: RawReference<'a> =
            serde_json::from_str(frame.param("ref").ok_or_else(bad)?).map_err(|_| bad())?;
        let (sort, exposed) = match &*raw.r#type {
            "ref/prompt" => (Sort::Prompt, raw.name.ok_or_else(bad)?),
            "ref/resource" => (Sort::Resource, raw.uri.ok_or_else(bad)?),
            _ => return Err(bad()),
        };
        Ok(Reference { sort, exposed, title: raw.title })
    }

    /// The same reference by the upstream's own name, raw JSON.
    pub(crate) fn native(&self, native: &str) -> String {
        let native = wire::code::quote(native);
        match (self.sort, &self.title) {
            (Sort::Resource, _) => format!("{{\"type\":\"ref/resource\",\"uri\":{native}}}"),
            (Sort::Prompt | Sort::Tool, None) => format!("{{\"type\":\"ref/prompt\",\"name\":{native}}}"),
            (Sort::Prompt | Sort::Tool, Some(title)) => format!(
                "{{\"type\":\"ref/prompt\",\"name\":{native},\"title\":{}}}",
                wire::code::quote(title)
            ),
        }
    }
}
