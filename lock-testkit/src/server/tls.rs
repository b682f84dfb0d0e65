//! The files that a server needs to speak TLS.

use std::path::{Path, PathBuf};

/// Files in PEM.
#[derive(Clone)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) ca: PathBuf,
}

impl TlsFiles {
    pub(crate) fn args(&self, port: u16) -> Vec<String> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let settings = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", path(&self.certificate)),
            ("--tls-key-file", path(&self.key)),
            ("--tls-ca-cert-file", path(&self.ca)),
        ];
        let words = settings.map(|(name, value)| [name.to_owned(), value]);
        words.into_iter().flatten().collect()
    }
}
