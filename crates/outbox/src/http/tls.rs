//! Whom to trust: the system's certificates, and those of a file.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{Error, ErrorKind, Result};

/// What a client needs for TLS. Without `wanted` nobody is trusted, for nobody will be asked.
pub(super) fn client(wanted: bool, ca_file: Option<&Path>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if wanted {
        // One that cannot be read is no reason to trust none.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = ca_file {
            add(&mut roots, path)?;
        }
        if roots.is_empty() {
            let what =
                "this system has no certificates to trust; install them (ca-certificates), or set `ca_file`";
            return Err(Error::new(ErrorKind::Config, what));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions
        .map_err(|error| Error::new(ErrorKind::Unexpected, "TLS cannot be set up").caused_by(error))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn add(roots: &mut RootCertStore, path: &Path) -> Result<()> {
    let wrong = |why: String| Error::new(ErrorKind::Config, format!("ca_file '{}' {why}", path.display()));
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mut count = 0;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(format!("is no PEM: {error}")))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(format!("has a certificate that cannot be used: {error}")))?;
        count += 1;
    }
    if count == 0 { Err(wrong("holds no certificate in PEM".to_owned())) } else { Ok(()) }
}
