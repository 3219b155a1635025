//! Certificates for a server of the tests: an authority of our own, and what it says about `localhost`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use tempfile::TempDir;

use crate::Missing;

const CONFIG: &str = "\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[server]
basicConstraints = CA:FALSE
subjectAltName = DNS:localhost,IP:127.0.0.1,IP:::1
";

/// An authority, and a certificate of it for `localhost`, `127.0.0.1` and `::1`. They go when it is dropped.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes new ones, which nobody trusts yet.
    pub fn create() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("outbox-testbed.").tempdir()?;
        make(folder.path())?;
        Ok(Self { folder })
    }

    /// The certificate of the authority, as PEM: who trusts it trusts the server.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join(AUTHORITY)
    }

    /// The certificate of the server, as PEM.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join(CERTIFICATE)
    }

    /// The key of the server, as PEM.
    pub fn key(&self) -> PathBuf {
        self.folder.path().join(KEY)
    }
}

pub(crate) const AUTHORITY: &str = "authority.pem";
pub(crate) const CERTIFICATE: &str = "certificate.pem";
pub(crate) const KEY: &str = "key.pem";

/// Writes the files into a folder.
pub(crate) fn make(folder: &Path) -> Result<()> {
    fs::write(folder.join("openssl.cnf"), CONFIG)?;
    let request = |section: &str, key: &str, certificate: &str, more: &[&str]| -> Result<()> {
        let mut command = Command::new("openssl");
        command.current_dir(folder).env_remove("OPENSSL_CONF");
        command.args(["req", "-x509", "-config", "openssl.cnf", "-newkey", "ec", "-nodes", "-days", "30"]);
        command
            .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj"])
            .arg(format!("/CN=testbed {section}"));
        command.args(["-extensions", section, "-keyout", key, "-out", certificate]).args(more);
        let output = command.output().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                anyhow!(Missing { server: "openssl", install: "apt-get install openssl", in_ci: false })
            }
            _ => anyhow!(error).context("cannot run openssl"),
        })?;
        if !output.status.success() {
            bail!("openssl failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    };
    request("authority", "authority.key", AUTHORITY, &[])?;
    request("server", KEY, CERTIFICATE, &["-CA", AUTHORITY, "-CAkey", "authority.key"])
        .context("the certificate of the server")
}
