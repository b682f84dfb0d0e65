//! [`FredClient`] opens a connection: everything from the address to the end of the handshake.

use std::error::Error as _;
use std::io;
use std::panic::catch_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fred::error::Error;
use fred::interfaces::ClientLike;
use futures::FutureExt;
use futures::future::{Either, select};
use lock_core::NodeError;
use lock_core::backend::{
    AtConnect, Client, Credentials, Opened, Protocol, ProtocolProbe, Sentinels,
};
use lock_core::node::NodeErrorKind;
use tokio::runtime::Handle;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, timeout};

use crate::connection::{FredConnection, Session};
use crate::convert::{cause, server_error};
use crate::mismatch::{diagnose, expects, no_tls};
use crate::settings::{Settings, TlsConnector};

/// Opens connections to one server. Each is a fred client of its own, which never reconnects.
///
/// fred's reconnect is not used: it keeps commands and sends them late, after their callers are gone;
/// its calls wait for it instead of failing; and it closes a connection that hangs before the server
/// has run what is in it, releases included.
#[derive(Clone)]
pub(crate) struct FredClient {
    pub(crate) settings: Arc<Settings>,
    /// What takes the place of some of the settings at each connect.
    pub(crate) credentials_at_connect: Option<AtConnect<Credentials>>,
    pub(crate) tls_at_connect: Option<AtConnect<TlsConnector>>,
    pub(crate) probe: Arc<ProtocolProbe>,
    /// Who knows where the server is. What the settings have for its host is then the name of a master.
    pub(crate) sentinels: Option<Sentinels<Self>>,
}

impl FredClient {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
            credentials_at_connect: None,
            tls_at_connect: None,
            probe: Arc::default(),
            sentinels: None,
        }
    }

    pub(crate) fn with_credentials(&self, ask: AtConnect<Credentials>) -> Self {
        Self {
            credentials_at_connect: Some(ask),
            ..self.clone()
        }
    }

    #[cfg(any(
        feature = "enable-rustls",
        feature = "enable-rustls-ring",
        feature = "enable-native-tls"
    ))]
    pub(crate) fn with_tls(&self, ask: AtConnect<TlsConnector>) -> Self {
        Self {
            tls_at_connect: Some(ask),
            ..self.clone()
        }
    }

    /// Connects with what is to be asked for first.
    pub(crate) async fn session(&self, within: Duration) -> Result<Session, NodeError> {
        let (settings, within) = self.asked(within).await?;
        let opened = self.open_or_diagnose(&settings, within).await;
        let session = match self.credentials_at_connect {
            Some(_) => opened.map_err(Credentials::refused)?,
            None => opened?,
        };
        self.probe.understood();
        Ok(session)
    }

    /// The settings of the next connection, with what is to be asked for, and the time that is left for it.
    async fn asked(&self, within: Duration) -> Result<(Arc<Settings>, Duration), NodeError> {
        if self.credentials_at_connect.is_none() && self.tls_at_connect.is_none() {
            return Ok((Arc::clone(&self.settings), within));
        }
        let start = Instant::now();
        let late = |_| {
            let late = format!("no credentials or certificates in {within:?}");
            NodeError::not_sent("cannot connect").with_source(late)
        };
        let settings = timeout(within, self.ask_for_settings())
            .await
            .map_err(late)??;
        Ok((settings, within.saturating_sub(start.elapsed())))
    }

    async fn ask_for_settings(&self) -> Result<Arc<Settings>, NodeError> {
        let mut settings = Arc::clone(&self.settings);
        // A unix socket has none.
        let has_tls = settings.host_and_port().is_some();
        if let Some(tls) = self.tls_at_connect.as_ref().filter(|_| has_tls) {
            let tls = tls.ask("the certificates").await?;
            settings = Arc::new(Arc::unwrap_or_clone(settings).by_tls(tls));
        }
        if let Some(credentials) = &self.credentials_at_connect {
            let credentials = credentials.ask("the credentials").await?;
            let changed = Arc::unwrap_or_clone(settings).logging_in_as(&credentials);
            let changed = changed
                .map_err(|error| NodeError::not_sent("cannot connect").with_source(error))?;
            settings = Arc::new(changed);
        }
        Ok(settings)
    }

    /// Connects, and finds out why that fails.
    async fn open_or_diagnose(
        &self,
        settings: &Settings,
        within: Duration,
    ) -> Result<Session, NodeError> {
        let start = Instant::now();
        let late = |_| {
            let late = format!("not connected in {within:?}, the handshake included");
            NodeError::not_sent("cannot connect").with_source(late)
        };
        let opened = timeout(within, open_or_doubt(settings, &self.probe, within)).await;
        match opened.map_err(late)? {
            // Without a cause it is the runtime that is at fault, not the server.
            Err(error) if error.kind() == NodeErrorKind::NotSent && error.source().is_some() => {
                // Not for long: a server that understands neither stays silent.
                let patience = within.saturating_sub(start.elapsed()).min(within / 4);
                let diagnosis = diagnose(settings, &self.probe, error.clone());
                Err(timeout(patience, diagnosis).await.unwrap_or(error))
            }
            opened => opened,
        }
    }
}

async fn open_one(settings: &Settings) -> Result<Session, NodeError> {
    let Some((host, port)) = settings.host_and_port() else {
        return open(settings.client(None)).await;
    };
    let connect = |address| {
        let client = settings.client(Some(address));
        async { open(client).await.map_err(Failed) }
    };
    let opened = settings.addresses.connect(host, port, connect).await;
    opened.map_err(|Failed(error)| error)
}

/// Connects. If TLS takes long, the server is asked whether it expects plain text.
async fn open_or_doubt(
    settings: &Settings,
    probe: &ProtocolProbe,
    within: Duration,
) -> Result<Session, NodeError> {
    let opened = pin!(open_one(settings));
    if !settings.uses_tls() {
        return opened.await;
    }
    let doubt = pin!(async {
        sleep(within / 4).await;
        expects(settings, probe, Protocol::PlainText).await
    });
    match select(opened, doubt).await {
        Either::Left((opened, _)) => opened,
        Either::Right((true, _)) => Err(no_tls()),
        Either::Right((false, opened)) => opened.await,
    }
}

impl Client for FredClient {
    type Connection = FredConnection;

    fn label(&self) -> &str {
        match &self.sentinels {
            Some(sentinels) => sentinels.label(),
            None => self.settings.label(),
        }
    }

    fn prefer_another_address(&self) {
        self.settings.addresses.prefer_another();
    }

    async fn connect(&self, within: Duration) -> Result<Opened<FredConnection>, NodeError> {
        check_runtime()?;
        if let Some(sentinels) = &self.sentinels {
            return sentinels.connect(self, within).await;
        }
        let session = self.session(within).await?;
        Ok(Opened::new(session.connection(), session.broken()))
    }
}

/// Why an address could not be connected to.
struct Failed(NodeError);

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self(NodeError::not_sent("cannot connect").with_source(error))
    }
}

/// There is no way to ask whether a runtime has timers: tokio panics at the first one.
fn check_runtime() -> Result<(), NodeError> {
    if Handle::try_current().is_err() {
        return Err(NodeError::not_sent("needs a tokio runtime"));
    }
    catch_unwind(|| drop(sleep(Duration::ZERO)))
        .map_err(|_| NodeError::not_sent("needs a tokio runtime with its timers and IO enabled"))
}

async fn open(client: fred::clients::Client) -> Result<Session, NodeError> {
    let waiter = client.clone();
    let mut connected = pin!(waiter.wait_for_connect());
    // The first poll subscribes, so that no result can be missed.
    if connected.as_mut().now_or_never().is_some() {
        return Err(NodeError::not_sent("cannot connect"));
    }
    let mut session = Session::start(client);
    match select(connected, session.router()).await {
        Either::Left((Ok(()), _)) => Ok(session),
        Either::Left((Err(error), _)) => Err(refused(error)),
        Either::Right((ended, _)) => Err(cut_off(ended)),
    }
}

/// Nothing was sent but the handshake. If that was answered with an error, the error is told as
/// an answer: a lock may end its waiting for lack of permission.
fn refused(error: Error) -> NodeError {
    server_error(&error)
        .unwrap_or_else(|| NodeError::not_sent("cannot connect").with_source(cause(error)))
}

fn cut_off(ended: Result<Result<(), Error>, JoinError>) -> NodeError {
    match ended {
        Ok(Err(error)) => refused(error),
        Err(error) if error.is_panic() => NodeError::not_sent(
            "fred cannot connect here: it needs a tokio runtime with its timers and IO enabled",
        ),
        Ok(Ok(())) | Err(_) => NodeError::not_sent("the connect was cut off"),
    }
}
