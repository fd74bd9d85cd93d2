//! TLS for clients: the operator's certificate, and its replacement while connections go on.

use std::{
    fmt::Display,
    fs, io,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use config::ServerTls;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

use crate::{failure::Failure, framing::Spoken};

/// How often the files are looked at. Whoever renews a certificate need not tell us.
const LOOK: Duration = Duration::from_secs(30);

/// The certificate in use.
pub(crate) struct Tls {
    files: ServerTls,
    spoken: Spoken,
    current: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the certificate and its key.
    pub(crate) fn open(files: &ServerTls, spoken: Spoken) -> Result<Arc<Tls>, Failure> {
        let current = read(files, spoken).map_err(Failure::config)?;
        Ok(Arc::new(Tls { files: files.clone(), spoken, current: ArcSwap::from_pointee(current) }))
    }

    /// For one handshake.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    /// Follows the files: looks at them every half minute, and at once on SIGHUP. Ends only when it cannot.
    pub(crate) async fn follow(&self) -> io::Error {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => return error,
        };
        let mut seen = self.changed();
        loop {
            tokio::select! {
                _ = hangup.recv() => (),
                () = sleep(LOOK) => (),
            }
            let now = self.changed();
            if now != seen {
                seen = now;
                self.reload();
            }
        }
    }

    /// When the files were changed; the same answer means the same files.
    fn changed(&self) -> [Option<SystemTime>; 2] {
        [&self.files.cert, &self.files.key].map(|path| fs::metadata(path).ok()?.modified().ok())
    }

    /// Takes what is in the files now. When it cannot be used, what was in them before goes on.
    fn reload(&self) {
        match read(&self.files, self.spoken) {
            Ok(fresh) => {
                self.current.store(Arc::new(fresh));
                tracing::info!(cert = %self.files.cert.display(), "the certificate was replaced");
            }
            Err(error) => tracing::error!(%error, "the certificate was not replaced"),
        }
    }
}

fn read(files: &ServerTls, spoken: Spoken) -> Result<ServerConfig, String> {
    let wrong = |path: &Path, error: &dyn Display| format!("`tls`: {}: {error}", path.display());
    let chain = CertificateDer::pem_file_iter(&files.cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| wrong(&files.cert, &error))?;
    if chain.is_empty() {
        return Err(wrong(&files.cert, &"there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("`tls`: {error}"))?;
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&files.cert, &format_args!("it does not go with its key: {error}")))?;
    config.alpn_protocols = match spoken {
        Spoken::One => vec![b"http/1.1".to_vec()],
        Spoken::OneOrTwo => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str) -> (ServerTls, String) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let files = ServerTls { cert: folder.join("tls.crt"), key: folder.join("tls.key") };
        fs::write(&files.cert, made.cert.pem()).unwrap();
        fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        (files, made.cert.pem())
    }

    #[test]
    fn a_certificate_is_replaced_only_by_one_that_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let (files, _) = write(folder.path(), "localhost");
        let tls = Tls::open(&files, Spoken::OneOrTwo).unwrap();
        let first = tls.current.load_full();
        assert_eq!(first.alpn_protocols, [&b"h2"[..], b"http/1.1"]);
        write(folder.path(), "localhost");
        tls.reload();
        let second = tls.current.load_full();
        assert!(!Arc::ptr_eq(&first, &second));
        fs::write(&files.cert, "nothing").unwrap();
        tls.reload();
        assert!(Arc::ptr_eq(&second, &tls.current.load_full()));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (files, _) = write(folder.path(), "localhost");
        let other = tempfile::tempdir().unwrap();
        let (others, _) = write(other.path(), "localhost");
        let none = folder.path().join("none.pem");
        for (cert, key, part) in [
            (&none, &files.key, "none.pem"),
            (&files.cert, &none, "none.pem"),
            (&files.key, &files.key, "no certificate"),
            (&files.cert, &files.cert, "tls.crt"),
            (&files.cert, &others.key, "does not go with its key"),
        ] {
            let files = ServerTls { cert: cert.clone(), key: key.clone() };
            let failure = Tls::open(&files, Spoken::One).err().unwrap().to_string();
            assert!(failure.contains(part), "{failure}");
        }
    }
}
