//! Opening a page in the user's browser.

use std::{env, process::Stdio};

use tokio::process::Command;
use url::Url;

/// What opens a page with the program that the user chose for it.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens a page, and waits for the program that does. Says nothing when there is none: the address is printed anyway.
pub(super) async fn open(page: &Url) {
    // Other schemes would start other programs.
    if !matches!(page.scheme(), "http" | "https") || !has_screen() {
        return;
    }
    // No shell reads the address, and it cannot begin like an option. Standard output is the client's (spec P-01).
    let mut opener = Command::new(OPENER);
    opener.arg(page.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = opener.status().await {
        tracing::info!(%error, "no browser could be opened");
    }
}

/// Without one, a browser would be one of the terminal, which is not ours to draw on.
fn has_screen() -> bool {
    cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"]
            .iter()
            .any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}
