//! In the place of TLS where no feature switches it on.

/// There is none.
#[derive(Clone, Debug)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) async fn handshake<S>(&self, _host: &str, _stream: S) -> Result<S, TlsError> {
        match *self {}
    }

    pub(crate) async fn objection<S>(&self, _host: &str, _stream: S) -> Option<TlsError> {
        match *self {}
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no TLS")]
pub(crate) enum TlsError {}

impl TlsError {
    pub(crate) fn may_be_plain_text(&self) -> bool {
        match *self {}
    }
}
