//! How the command line finds the operators' key of a gateway on this machine.

use std::path::PathBuf;

use http::HeaderValue;

use crate::{
    cli::{Operator, serve},
    failure::Failure,
    key,
};

impl Operator {
    /// The header that opens the operators' pages. None when nothing here says where the key is: the gateway then
    /// tells what it wants.
    pub(super) fn credential(&self) -> Result<Option<HeaderValue>, Failure> {
        if let Some(file) = &self.key_file {
            return key::header(file).map(Some);
        }
        let state_dir = self.state_dir()?;
        state_dir.map(|folder| key::header(&folder.join(key::FILE))).transpose()
    }

    /// The configuration of the gateway on this machine; none when it is reached by its key alone.
    pub(super) fn configuration(&self) -> Result<Option<PathBuf>, Failure> {
        match (&self.key_file, &self.state_dir) {
            (None, None) => serve::find(self.file.config.clone()).map(Some),
            _ => Ok(None),
        }
    }

    /// The state folder of the gateway: as given, else as its configuration says.
    fn state_dir(&self) -> Result<Option<PathBuf>, Failure> {
        if let Some(folder) = &self.state_dir {
            return Ok(Some(folder.clone()));
        }
        let Ok(path) = serve::find(self.file.config.clone()) else { return Ok(None) };
        Ok(Some(serve::load(&path)?.config.state_dir))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cli::ConfigFile;

    #[test]
    fn the_key_is_found_where_the_gateway_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        fs::create_dir_all(&state).unwrap();
        fs::create_dir_all(folder.path().join("tenants")).unwrap();
        fs::write(folder.path().join("portcullis.yaml"), "tenants: tenants/*.yaml\nstate_dir: state\n")
            .unwrap();
        let tenant = "tenant: a\nupstreams:\n  one: { command: sh, trust: trusted }\n";
        fs::write(folder.path().join("tenants/a.yaml"), tenant).unwrap();
        key::Key::open(&state).unwrap();
        let operator = |key_file, state_dir, config| Operator {
            admin: String::new(),
            key_file,
            state_dir,
            file: ConfigFile { config },
        };
        let expected = key::header(&state.join(key::FILE)).unwrap();
        for found in [
            operator(Some(state.join(key::FILE)), None, None),
            operator(None, Some(state.clone()), None),
            operator(None, None, Some(folder.path().join("portcullis.yaml"))),
        ] {
            assert_eq!(found.credential().unwrap().as_ref(), Some(&expected));
        }
        assert!(operator(None, Some(folder.path().to_owned()), None).credential().is_err());
    }
}
