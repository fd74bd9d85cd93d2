//! How many files this process may have open: every connection and every upstream process needs some.

use config::Config;
use rustix::process::{Resource, getrlimit, setrlimit};

/// An upstream process has three pipes and a watch on its end.
const PER_PROCESS: usize = 4;

/// The store, the log, the listeners, connections to upstreams.
const OWN: usize = 256;

/// Raises the limit as far as the operating system lets us, and warns when that is not enough.
pub(crate) fn raise(config: &Config) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
    let needed = needed(config);
    if let Some(most) = getrlimit(Resource::Nofile).current.filter(|most| *most < needed) {
        tracing::warn!(
            most,
            needed,
            "not enough files may be open for `limits.connections` and the upstream processes: raise the hard limit \
             (`ulimit -Hn`, `LimitNOFILE=`), or lower `limits.connections` or `processes`"
        );
    }
}

/// The most that can be open when everything is used up to its own limit.
fn needed(config: &Config) -> u64 {
    let processes: usize =
        config.tenants.iter().map(|tenant| tenant.processes.saturating_add(tenant.upstreams.len())).sum();
    let files = PER_PROCESS.saturating_mul(processes).saturating_add(config.limits.connections);
    files.saturating_add(OWN) as u64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("portcullis.yaml");
        fs::create_dir(folder.path().join("tenants")).unwrap();
        fs::write(&main, "tenants: tenants/*.yaml\nlimits: { connections: 100 }\n").unwrap();
        let tenant = "tenant: a\nprocesses: 10\nupstreams:\n  one: { command: sh, trust: trusted }\n";
        fs::write(folder.path().join("tenants/a.yaml"), tenant).unwrap();
        let config = crate::cli::load(&main).unwrap().config;
        assert_eq!(needed(&config), 100 + 4 * 11 + 256);

        let hard = getrlimit(Resource::Nofile).maximum;
        let low = rustix::process::Rlimit { current: Some(500), maximum: hard };
        setrlimit(Resource::Nofile, low).unwrap();
        raise(&config);
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
