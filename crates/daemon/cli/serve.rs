//! `portcullis serve`: finds and loads the configuration, then runs until a signal.

use std::path::{Path, PathBuf};

use config::{Loaded, Problem};

use crate::{
    failure::Failure,
    files::Texts,
    reload::{self, Reload},
    run::{self, Doors},
};

/// Where a configuration is looked for, in this order.
const PLACES: [&str; 2] = ["portcullis.yaml", "/etc/portcullis/portcullis.yaml"];

/// Runs the gateway.
pub(crate) fn serve(named: Option<PathBuf>) -> Result<(), Failure> {
    let path = find(named)?;
    let (Loaded { config, warnings, .. }, texts) = read(&path)?;
    for Problem { file, line, path, message, .. } in &warnings {
        tracing::warn!(file = %file.display(), line, path, "{message}");
    }
    run::on_runtime(async {
        let doors = Doors::bind(&config).await?;
        run::run(config, Reload::new(path, texts)?, doors, || ()).await
    })
}

/// The file that is named, or the first that exists where one is expected.
pub(crate) fn find(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let usual = || PLACES.iter().map(PathBuf::from).find(|path| path.exists());
    named.or_else(usual).ok_or_else(|| {
        let places = PLACES.join(" or ");
        Failure::config(format!(
            "no configuration at {places}: name one with `--config FILE`, or try `portcullis demo`"
        ))
    })
}

/// Loads a configuration; all its problems make one failure.
pub(crate) fn load(path: &Path) -> Result<Loaded, Failure> {
    read(path).map(|(loaded, _)| loaded)
}

/// The same, with what was read for it.
pub(crate) fn read(path: &Path) -> Result<(Loaded, Texts), Failure> {
    let (loaded, texts) = reload::read(path);
    loaded.map(|loaded| (loaded, texts)).map_err(|problems| {
        let count = problems.len();
        let word = if count == 1 { "problem" } else { "problems" };
        Failure::config(format!("{}{count} {word}", config::render(&problems)))
    })
}
