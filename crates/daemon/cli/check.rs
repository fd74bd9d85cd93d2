//! `portcullis check`: every problem of a configuration, or what it would serve.

use std::path::PathBuf;

use config::{Config, Loaded};

use crate::{
    cli::{output, serve},
    failure::Failure,
};

/// Checks a configuration.
pub(crate) fn check(named: Option<PathBuf>) -> Result<(), Failure> {
    let path = serve::find(named)?;
    let Loaded { config, warnings, .. } = serve::load(&path)?;
    output::complain(config::render(&warnings).trim_end());
    output::print(&summary(&config));
    Ok(())
}

fn summary(config: &Config) -> String {
    let tenants = config.tenants.len();
    let upstreams: usize = config.tenants.iter().map(|tenant| tenant.upstreams.len()).sum();
    let several = |count, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    format!("ok: {}, {}", several(tenants, "tenant"), several(upstreams, "upstream"))
}
