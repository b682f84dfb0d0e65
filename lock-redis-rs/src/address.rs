//! Where a server is, and how it is spoken to.

use std::error::Error;
use std::sync::Arc;

use lock_core::NodeError;
use lock_core::backend::{Addresses, AtConnect, Credentials, ProtocolProbe, Sentinels};
use redis::{Client, ConnectionAddr, RedisResult};

use crate::sentinel::Listener;
use crate::tls::Tls;

/// The address of a server.
#[derive(Clone)]
pub(crate) struct Address {
    /// `host:port`, without the database: two databases are one server, which has one vote.
    pub(crate) label: String,
    pub(crate) client: Client,
    /// TLS of ours; redis-rs does what is in a client of its user's.
    pub(crate) tls: Option<Tls>,
    /// What takes the place of the client's credentials and of `tls` at each connect.
    pub(crate) credentials_at_connect: Option<AtConnect<Credentials>>,
    pub(crate) tls_at_connect: Option<AtConnect<Tls>>,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) probe: Arc<ProtocolProbe>,
    /// Who knows where the server is. What the client has for its host is then the name of a master.
    pub(crate) sentinels: Option<Sentinels<Self>>,
    /// Who is told of what is published, on a connection that listens.
    pub(crate) listener: Option<Arc<Listener>>,
}

impl Address {
    pub(crate) fn new(client: Client, tls: Option<Tls>) -> Self {
        Self {
            label: label(client.get_connection_info().addr()),
            client,
            tls,
            credentials_at_connect: None,
            tls_at_connect: None,
            addresses: Arc::default(),
            probe: Arc::default(),
            sentinels: None,
            listener: None,
        }
    }

    pub(crate) fn parse(url: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let plain = match scheme.to_ascii_lowercase().as_str() {
            "rediss" => "redis",
            "valkeys" => "valkey",
            _ => return Ok(Self::new(open(url)?, None)),
        };
        let tls = default_tls()?;
        if rest.contains('#') {
            return Err(
                "TLS without a check of the certificate (`#insecure`) is not supported: \
                        name the certificate that is to be trusted with `RedisRsNode::tls`"
                    .into(),
            );
        }
        Ok(Self::new(open(&format!("{plain}://{rest}"))?, Some(tls)))
    }

    /// The same by TLS of ours. A unix socket needs none.
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    pub(crate) fn by_our_tls(&self) -> Self {
        let info = self.client.get_connection_info();
        let client = match info.addr() {
            ConnectionAddr::TcpTls { host, port, .. } => {
                let addr = ConnectionAddr::Tcp(host.clone(), *port);
                // An address of TCP is never refused.
                Client::open(info.clone().set_addr(addr)).unwrap_or_else(|_| self.client.clone())
            }
            _ => self.client.clone(),
        };
        Self {
            client,
            tls: Some(Tls::new()),
            ..self.clone()
        }
    }

    /// Returns whether something is to be asked for at each connect.
    pub(crate) fn asks(&self) -> bool {
        self.credentials_at_connect.is_some() || self.tls_at_connect.is_some()
    }

    /// The address with what is to be asked for at each connect. The rest is shared.
    pub(crate) async fn asked(&self) -> Result<Self, NodeError> {
        let mut asked = self.clone();
        // A unix socket has none.
        let has_tls = !matches!(
            self.client.get_connection_info().addr(),
            ConnectionAddr::Unix(_)
        );
        if let Some(tls) = self.tls_at_connect.as_ref().filter(|_| has_tls) {
            asked.tls = Some(tls.ask("the certificates").await?);
        }
        if let Some(credentials) = &self.credentials_at_connect {
            let credentials = credentials.ask("the credentials").await?;
            asked.client = logging_in_as(&self.client, &credentials)
                .map_err(|error| NodeError::not_sent("cannot connect").with_source(error))?;
        }
        Ok(asked)
    }
}

/// A client, or why it is none, without what redis-rs quotes of the URL: there may be a secret in it.
fn open(url: &str) -> Result<Client, String> {
    Client::open(url).map_err(|error| {
        let text = error.to_string();
        match error.detail() {
            Some(detail) => text.replace(&format!(": {detail}"), ""),
            None => text,
        }
    })
}

fn logging_in_as(client: &Client, credentials: &Credentials) -> RedisResult<Client> {
    let info = client.get_connection_info();
    let settings = info.redis_settings().clone();
    let settings = match (credentials.user(), settings.username()) {
        (Some(user), _) => settings.set_username(user),
        // In the place of the one that the URL names.
        (None, Some(_)) => settings.set_username("default"),
        (None, None) => settings,
    };
    let settings = settings.set_password(credentials.password());
    Client::open(info.clone().set_redis_settings(settings))
}

#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
fn default_tls() -> Result<Tls, &'static str> {
    Ok(Tls::new())
}

#[cfg(not(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls")))]
fn default_tls() -> Result<Tls, &'static str> {
    Err("TLS needs one of the features `rustls`, `rustls-ring` and `native-tls` of lock-redis-rs")
}

pub(crate) fn label(address: &ConnectionAddr) -> String {
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
