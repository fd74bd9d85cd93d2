//! A scripted server that is reached by a URL.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::wait::until;

/// One that runs. Ended when dropped.
#[derive(Debug)]
pub(crate) struct Served(Child);

impl Served {
    /// Starts the player in the script's folder, and returns the URL of its endpoint.
    pub(crate) fn start(python: &str, player: &[String], home: &Path) -> (Served, String) {
        let mut child = Command::new(python)
            .args(player)
            .arg("http")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(home.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let port = until("a scripted server to listen", || {
            assert_eq!(
                child.try_wait().unwrap(),
                None,
                "{}",
                fs::read_to_string(home.join("stderr")).unwrap()
            );
            fs::read_to_string(home.join("port")).ok()
        });
        (Served(child), format!("http://127.0.0.1:{port}/mcp"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
