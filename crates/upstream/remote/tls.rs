//! Whom we trust over TLS, and how we show who we are.

use crate::spec::Address;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::{Arc, OnceLock};

/// The configuration for one address. The error is for the operator.
pub(crate) fn configure(address: &Address) -> Result<ClientConfig, String> {
    build(address.ca.as_deref(), address.client_certificate.as_ref())
}

/// The configuration of one who shows no certificate and trusts the authorities of the system and those in `ca`, PEM.
pub(crate) fn of(ca: Option<&[u8]>) -> Result<ClientConfig, String> {
    build(ca, None)
}

fn build(ca: Option<&[u8]>, certificate: Option<&(Vec<u8>, Vec<u8>)>) -> Result<ClientConfig, String> {
    // Named here, so that no other crate in the program can make the choice ambiguous.
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider()));
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(ca)?, Arc::clone(provider))
        .build()
        .map_err(|_| "there is no certificate authority to trust".to_owned())?;
    let config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_webpki_verifier(verifier);
    let Some((certificates, key)) = certificate else {
        return Ok(config.with_no_client_auth());
    };
    let certificates = read(certificates).ok_or("the client certificate is no PEM certificate")?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|_| "the key of the client certificate is no PEM key")?;
    config
        .with_client_auth_cert(certificates, key)
        .map_err(|_| "the client certificate and its key do not belong together".to_owned())
}

/// The authorities of the system, and those in `ca`.
fn roots(ca: Option<&[u8]>) -> Result<Arc<RootCertStore>, String> {
    static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let system = SYSTEM.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // A file that cannot be read costs the certificates in it, no more.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    let Some(ca) = ca else { return Ok(Arc::clone(system)) };
    let mut roots = (**system).clone();
    for certificate in read(ca).ok_or("the certificate authority is no PEM certificate")? {
        roots.add(certificate).map_err(|_| "the certificate authority cannot be used as one")?;
    }
    Ok(Arc::new(roots))
}

/// All certificates in the text; none at all is a mistake.
fn read(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!certificates.is_empty()).then_some(certificates)
}
