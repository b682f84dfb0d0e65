//! Where a server is, and how it is spoken to.

use std::error::Error;
use std::sync::Arc;

use lock_core::backend::{Addresses, ProtocolProbe};
use redis::{Client, ConnectionAddr};

use crate::tls::Tls;

/// The address of a server.
#[derive(Clone)]
pub(crate) struct Address {
    /// `host:port`, without the database: two databases are one server, which has one vote.
    pub(crate) label: String,
    pub(crate) client: Client,
    /// TLS of ours; redis-rs does what is in a client of its user's.
    pub(crate) tls: Option<Tls>,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) probe: Arc<ProtocolProbe>,
}

impl Address {
    pub(crate) fn new(client: Client, tls: Option<Tls>) -> Self {
        Self {
            label: label(client.get_connection_info().addr()),
            client,
            tls,
            addresses: Arc::default(),
            probe: Arc::default(),
        }
    }

    pub(crate) fn parse(url: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let plain = match scheme.to_ascii_lowercase().as_str() {
            "rediss" => "redis",
            "valkeys" => "valkey",
            _ => return Ok(Self::new(Client::open(url)?, None)),
        };
        let tls = default_tls()?;
        if rest.contains('#') {
            return Err(
                "TLS without a check of the certificate (`#insecure`) is not supported: \
                        name the certificate that is to be trusted with `RedisRsNode::tls`"
                    .into(),
            );
        }
        Ok(Self::new(
            Client::open(format!("{plain}://{rest}"))?,
            Some(tls),
        ))
    }

    /// The same by TLS. A unix socket needs none.
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    pub(crate) fn with_tls(&self, tls: Tls) -> Self {
        let info = self.client.get_connection_info();
        let client = match info.addr() {
            ConnectionAddr::TcpTls { host, port, .. } => {
                let addr = ConnectionAddr::Tcp(host.clone(), *port);
                // An address of TCP is never refused.
                Client::open(info.clone().set_addr(addr)).unwrap_or_else(|_| self.client.clone())
            }
            _ => self.client.clone(),
        };
        Self::new(client, Some(tls))
    }
}

#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
fn default_tls() -> Result<Tls, &'static str> {
    Ok(Tls::new())
}

#[cfg(not(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls")))]
fn default_tls() -> Result<Tls, &'static str> {
    Err("TLS needs one of the features `rustls`, `rustls-ring` and `native-tls` of lock-redis-rs")
}

fn label(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            if host.contains(':') {
                format!("[{host}]:{port}").to_ascii_lowercase()
            } else {
                format!("{host}:{port}").to_ascii_lowercase()
            }
        }
        other => other.to_string(),
    }
}
