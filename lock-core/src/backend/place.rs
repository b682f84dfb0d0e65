//! Where a server is, as other servers say it.

use std::fmt;

/// The most bytes of a host that are taken from a server: no name of DNS is longer.
pub(super) const HOST: usize = 253;

/// A host and a port: an address, or a name where the servers are set to give names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Place {
    /// `None` if nothing can be there.
    pub(super) fn new(host: &[u8], port: u16) -> Option<Self> {
        let host = std::str::from_utf8(host).ok()?.to_ascii_lowercase();
        let is_host = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c);
        let is_usable = !host.is_empty() && host.len() <= HOST && host.chars().all(is_host);
        (is_usable && port != 0).then_some(Self { host, port })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
