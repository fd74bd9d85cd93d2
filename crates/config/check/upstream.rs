//! One upstream of a tenant.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Checker;
use super::process::beside;
use crate::credential::Scope;
use crate::model::{Secret, Timeouts, Transport, Upstream};
use crate::raw;
use crate::reader::At;
use crate::words::{Argument, Command};

/// Programs that run what a string tells them to.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "pwsh", "powershell"];

impl Checker<'_> {
    /// The upstream; `None` when it cannot be reached.
    pub(super) fn upstream(&mut self, id: &str, raw: &At<raw::Upstream>) -> Option<Upstream> {
        let ids = [id];
        let tools = self.filter(&raw.tools(), &ids);
        let prompts = self.filter(&raw.prompts(), &ids);
        let resources = self.filter(&raw.resources(), &[]);
        let timeouts = self.timeouts(&raw.timeouts());
        self.misplaced(raw);
        let transport = match raw.url {
            Some(_) => self.http(raw),
            None => self.stdio(raw),
        }?;
        Some(Upstream {
            id: Arc::from(id),
            transport,
            trust: raw.trust().0,
            share: raw.share().0,
            label: raw.label.as_ref().map(|label| label.value.0.as_str().into()),
            tools,
            egress: raw.egress().into_iter().map(|glob| glob.value.0).collect(),
            scopes: scopes(raw.scopes()),
            tool_scopes: raw
                .tool_scopes()
                .entries
                .into_iter()
                .filter_map(|(glob, needed)| Some((glob.value.0, scopes(needed?.value))))
                .collect(),
            prompts,
            resources,
            timeouts,
            max_tools: raw.max_tools().0,
        })
    }

    fn stdio(&mut self, raw: &At<raw::Upstream>) -> Option<Transport> {
        let command = raw.command.as_ref()?;
        let args = raw.args();
        self.shell(command, &args);
        let dir = raw.dir.as_ref().map(|dir| beside(&dir.place, &dir.value.0));
        let program = self.program(command, dir.as_deref())?;
        let env =
            raw.env().entries.into_iter().filter_map(|(name, value)| Some((name.value.0, value?.value.0)));
        let env: Vec<(String, Secret)> = env.collect();
        let args = args.into_iter().map(|argument| argument.value.0).collect();
        Some(Transport::Stdio { program, args, env, dir })
    }

    fn program(&mut self, command: &At<Command>, dir: Option<&Path>) -> Option<PathBuf> {
        // A path is relative to the file it stands in, wherever the gateway was started (security 45).
        let beside = command.value.0.contains('/').then(|| beside(&command.place, Path::new("")));
        let found = self.files.program(&command.value.0, dir.or(beside.as_deref()));
        if found.is_none() {
            let written = command.place.written();
            let hint = match written.split_once(' ') {
                Some((program, _)) if !written.contains('/') => {
                    format!("is the program `{program}`? Arguments go into `args`; no shell parts them")
                }
                Some(_) | None => "install it, or write its absolute path".to_owned(),
            };
            self.error(&command.place, format!("the program `{written}` was not found"), &hint);
        }
        found
    }

    /// A shell string is legal and rarely meant (spec P-10): what it starts and expands nobody checks.
    fn shell(&mut self, command: &At<Command>, args: &[At<Argument>]) {
        let mut shell = is_shell(&command.value.0);
        for argument in args {
            if shell && is_command_flag(&argument.value.0) {
                let message = "a shell runs this upstream, and everything in its string".to_owned();
                self.warn(
                    &argument.place,
                    message,
                    "name the program in `command` and its arguments in `args`",
                );
                return;
            }
            shell |= is_shell(&argument.value.0);
        }
    }

    fn timeouts(&mut self, raw: &raw::Timeouts) -> Timeouts {
        let timeouts = Timeouts {
            start: raw.start().0,
            call: raw.call().0,
            call_max: raw.call_max().0,
            list: raw.list().0,
            answer: raw.answer().0,
        };
        let written = raw.call.as_ref().map(|call| &call.place);
        let written = written.or(raw.call_max.as_ref().map(|call_max| &call_max.place));
        if let (true, Some(place)) = (timeouts.call > timeouts.call_max, written) {
            let message = "`timeouts.call` is longer than `timeouts.call_max`".to_owned();
            self.error(place, message, "`call_max` bounds a call whatever progress it reports; raise it");
        }
        timeouts
    }
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    SHELLS.contains(&name.strip_suffix(".exe").unwrap_or(name))
}

/// `-c`, also among other letters as in `-lc`.
fn is_command_flag(argument: &str) -> bool {
    match argument.strip_prefix('-') {
        Some(letters) => !letters.starts_with('-') && letters.to_ascii_lowercase().contains('c'),
        None => false,
    }
}

fn scopes(written: Vec<At<Scope>>) -> Vec<String> {
    written.into_iter().map(|scope| scope.value.0).collect()
}
