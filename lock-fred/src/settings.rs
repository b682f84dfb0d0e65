//! What a connection is made with.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::socket2::TcpKeepalive;
use fred::types::RespVersion;
use fred::types::config::{
    Blocking, Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig, TcpConfig,
};
use lock_core::backend::{Addresses, Credentials};

cfg_if::cfg_if! {
    if #[cfg(any(
        feature = "enable-rustls",
        feature = "enable-rustls-ring",
        feature = "enable-native-tls"
    ))] {
        pub(crate) use fred::types::config::TlsConnector;
    } else {
        /// There is none.
        #[derive(Clone)]
        pub(crate) enum TlsConnector {}
    }
}

/// When a quiet connection is probed, and how often from then on: soon enough that a peer that
/// vanished is noticed between two ticks of most jobs, rarely enough to cost nothing.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);

/// How long bytes may stay without a sign from the peer's kernel before ours gives up. It is longer than
/// a replaced connection lingers, whose releases are to arrive if they can.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// A setting of fred with which a node cannot keep the rules of
/// [`RedisNode`](lock_core::RedisNode), see the [crate docs](crate#settings-of-fred).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {found}, but must be {needed}")]
pub struct InvalidConfig {
    setting: &'static str,
    found: &'static str,
    needed: &'static str,
}

impl InvalidConfig {
    fn server(found: &'static str) -> Self {
        Self {
            setting: "Config::server",
            found,
            needed: "ServerConfig::Centralized: a node is one server, which has one vote",
        }
    }

    fn cluster() -> Self {
        Self {
            needed: "ServerConfig::Centralized, of one server of the cluster, in FredNode::cluster",
            ..Self::server("a cluster")
        }
    }

    fn sentinels() -> Self {
        Self {
            needed: "ServerConfig::Centralized, with the master's name for its host and the sentinels \
                     in FredNode::sentinels",
            ..Self::server("behind sentinels")
        }
    }

    /// The setting, as fred names it: `Config::server`.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

/// The settings of a node's connections: the user's where they do no harm, else our own.
#[derive(Clone)]
pub(crate) struct Settings {
    label: String,
    config: Config,
    performance: PerformanceConfig,
    connection: ConnectionConfig,
    pub(crate) addresses: Arc<Addresses>,
}

impl Settings {
    /// Of a configuration alone.
    pub(crate) fn of_config(config: Config) -> Result<Self, InvalidConfig> {
        Self::new(
            config,
            PerformanceConfig::default(),
            &ConnectionConfig::default(),
        )
    }

    /// Those of a client that somebody has already.
    pub(crate) fn of_client(client: &Client) -> Result<Self, InvalidConfig> {
        Self::new(
            client.client_config(),
            client.perf_config(),
            client.connection_config(),
        )
    }

    fn new(
        mut config: Config,
        mut performance: PerformanceConfig,
        theirs: &ConnectionConfig,
    ) -> Result<Self, InvalidConfig> {
        let label = label(&mut config.server)?;
        check_credentials(&config)?;
        config.fail_fast = true;
        config.blocking = Blocking::Block;
        // The deadline of a call is watched outside of fred.
        performance.default_command_timeout = Duration::ZERO;
        let connection = ConnectionConfig {
            max_command_attempts: 1,
            // Connecting is bounded as a whole, by us.
            connection_timeout: Duration::ZERO,
            internal_command_timeout: Duration::ZERO,
            auto_client_setname: theirs.auto_client_setname,
            tcp: tcp(&theirs.tcp),
            ..ConnectionConfig::default()
        };
        Ok(Self {
            label,
            config,
            performance,
            connection,
            addresses: Arc::default(),
        })
    }

    /// The same with other credentials.
    pub(crate) fn logging_in_as(
        mut self,
        credentials: &Credentials,
    ) -> Result<Self, InvalidConfig> {
        self.config.username = credentials.user().map(str::to_owned);
        self.config.password = Some(credentials.password().to_owned());
        check_credentials(&self.config)?;
        Ok(self)
    }

    /// The same with TLS by this connector.
    pub(crate) fn by_tls(self, connector: TlsConnector) -> Self {
        cfg_if::cfg_if! {
            if #[cfg(any(
                feature = "enable-rustls",
                feature = "enable-rustls-ring",
                feature = "enable-native-tls"
            ))] {
                let mut settings = self;
                settings.config.tls = Some(connector.into());
                settings
            } else {
                match connector {}
            }
        }
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Where a server of TCP is.
    pub(crate) fn host_and_port(&self) -> Option<(&str, u16)> {
        match &self.config.server {
            ServerConfig::Centralized { server } => Some((&server.host, server.port)),
            _ => None,
        }
    }

    /// The same for the server at this address.
    pub(crate) fn at(&self, host: &str, port: u16) -> Self {
        let mut settings = self.clone();
        if let ServerConfig::Centralized { server } = &mut settings.config.server {
            server.host = host.into();
            server.port = port;
        }
        settings.label = host_and_port(host, port);
        // What is known of one server says nothing of another one.
        settings.addresses = Arc::default();
        settings
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.config.uses_tls()
    }

    #[cfg(any(
        feature = "enable-rustls",
        feature = "enable-rustls-ring",
        feature = "enable-native-tls"
    ))]
    pub(crate) fn tls_connector(&self) -> Option<&TlsConnector> {
        self.config.tls.as_ref().map(|tls| &tls.connector)
    }

    /// A client for one connection, to this address of a server of TCP: fred would look the host up itself,
    /// where the end of a runtime waits for that. Without a policy it never reconnects, so that what was handed
    /// to it goes out over that connection or not at all.
    pub(crate) fn client(&self, address: Option<SocketAddr>) -> Client {
        let mut config = self.config.clone();
        if let (ServerConfig::Centralized { server }, Some(address)) = (&mut config.server, address)
        {
            let ip = address.ip().to_string().into();
            let _host = std::mem::replace(&mut server.host, ip);
            #[cfg(any(
                feature = "enable-rustls",
                feature = "enable-rustls-ring",
                feature = "enable-native-tls"
            ))]
            server.tls_server_name.get_or_insert(_host);
        }
        Client::new(
            config,
            Some(self.performance.clone()),
            Some(self.connection.clone()),
            None,
        )
    }
}

/// With RESP3, fred sends credentials as words of a line, and quotes nothing.
fn check_credentials(config: &Config) -> Result<(), InvalidConfig> {
    let fits = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"' || c == '\'')
    };
    for (setting, text) in [
        ("Config::username", &config.username),
        ("Config::password", &config.password),
    ] {
        if config.version == RespVersion::RESP3 && !fits(text) {
            return Err(InvalidConfig {
                setting,
                found: "a text with spaces, quotes or control characters",
                needed: "free of them with RESP3, or sent over RESP2",
            });
        }
    }
    Ok(())
}

fn tcp(theirs: &TcpConfig) -> TcpConfig {
    let mut tcp = theirs.clone();
    // What a connection still has to send when it is closed is ours to decide.
    tcp.linger = None;
    // Else the kernel holds a small command back while an earlier one is not acknowledged: on a
    // network, a call that starts while others wait for their answers is late by up to one round trip.
    tcp.nodelay.get_or_insert(true);
    tcp.keepalive.get_or_insert_with(|| {
        TcpKeepalive::new()
            .with_time(KEEPALIVE_AFTER)
            .with_interval(KEEPALIVE_EVERY)
    });
    // Else the kernel goes on sending what a connection that was closed still had, and a release behind a
    // doubtful acquire could arrive minutes later.
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    tcp.user_timeout.get_or_insert(UNACKNOWLEDGED);
    tcp
}

/// `host:port`, without the database: two databases are one server, which has one vote.
fn label(server: &mut ServerConfig) -> Result<String, InvalidConfig> {
    match server {
        ServerConfig::Centralized { server } => {
            remove_brackets(server);
            let Server { host, port, .. } = server;
            Ok(host_and_port(host, *port))
        }
        #[cfg(feature = "unix-sockets")]
        ServerConfig::Unix { path } => Ok(path.to_string_lossy().into_owned()),
        ServerConfig::Clustered { .. } => Err(InvalidConfig::cluster()),
        ServerConfig::Sentinel { .. } => Err(InvalidConfig::sentinels()),
        #[allow(unreachable_patterns, reason = "fred's features decide what there is")]
        _ => Err(InvalidConfig::server("of a kind that needs a feature")),
    }
}

fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}").to_ascii_lowercase()
    } else {
        format!("{host}:{port}").to_ascii_lowercase()
    }
}

/// fred takes the host of `redis://[::1]` with its brackets, and then cannot resolve it.
fn remove_brackets(server: &mut Server) {
    let bare = server.host.strip_prefix('[');
    if let Some(host) = bare.and_then(|host| host.strip_suffix(']')) {
        server.host = host.into();
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No more than the label: a configuration has credentials.
        f.debug_tuple("Settings").field(&self.label).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fred_is_given_no_name_to_look_up() {
        let config = Config::from_url("redis://name.invalid:7000/2").unwrap();
        let settings = Settings::of_config(config).unwrap();
        for address in ["10.0.0.1:7000", "[::1]:7000"] {
            let address: SocketAddr = address.parse().unwrap();
            let config = settings.client(Some(address)).client_config();
            let ServerConfig::Centralized { server } = config.server else {
                panic!("not one server");
            };
            assert_eq!(*server.host, address.ip().to_string());
            assert_eq!(server.port, 7000);
            assert_eq!(config.database, Some(2));
        }
        assert_eq!(settings.label(), "name.invalid:7000");
    }

    #[test]
    fn no_command_is_held_back_for_the_acknowledgement_of_another_unless_the_user_chose_so() {
        let nodelay = |nodelay| {
            let theirs = TcpConfig {
                nodelay,
                ..TcpConfig::default()
            };
            tcp(&theirs).nodelay
        };
        assert_eq!(nodelay(None), Some(true));
        assert_eq!(nodelay(Some(false)), Some(false));
    }
}
