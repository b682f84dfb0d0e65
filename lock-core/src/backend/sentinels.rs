//! Where a master is: asked of its sentinels at each connect, and watched from then on.

mod votes;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use super::client::{Client, Opened};
use super::led::{LedClient, asked};
use super::place::Place;
use crate::display::{Ms, Name};
use crate::node::{NodeError, NodeErrorKind, Reply};
use crate::runtime::{BoxFuture, ambient};
use crate::sync::locked;
use votes::{Answer, Decision, decide};

/// On which a sentinel tells that a master has moved.
const CHANNEL: &str = "+switch-master";

/// How long a sentinel may take to answer while a connection is up.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between a sign that something has changed and the question what: others may have more to say, and
/// whoever sends endless messages costs no more than this.
const SETTLING: Duration = Duration::from_millis(50);

/// Before a sentinel is listened to again.
const PAUSE: Duration = Duration::from_secs(1);

/// A [`Client`] that can be led to a master by [`Sentinels`], and that can ask a sentinel.
pub trait SentinelClient: LedClient {
    /// Subscribes to a channel over a connection of its own, before it returns. The future that it
    /// returns moves the bytes of the connection, calls `heard` at each message, and ends when the connection breaks;
    /// dropping it closes the connection.
    ///
    /// # Errors
    ///
    /// As [`connect`](Client::connect).
    fn listen(
        &self,
        channel: &'static str,
        heard: impl Fn() + Send + Sync + 'static,
        within: Duration,
    ) -> impl Future<Output = Result<BoxFuture<'static, ()>, NodeError>> + Send;
}

/// The sentinels that watch one master.
///
/// - **The master is where more than half of all sentinels say.** One that lies or is behind is outvoted,
///   and a client that is cut off from most of them does not go on at a master that may have been replaced.
/// - They are asked at each connect, all at once, over short-lived connections, for half of the time that
///   the connect may take. Then the server itself has to say by `ROLE` that it is a master.
/// - While the connection is up, each sentinel is listened to. When one tells of a move, or could not be
///   listened to for a while, all are asked again; if most of them name another master, the connection
///   ends, since what is written to the old one is lost when it is demoted.
pub struct Sentinels<C> {
    label: Arc<str>,
    master: Arc<str>,
    all: Arc<[C]>,
    /// The client for the last master, which knows what its name led to.
    last: Arc<Mutex<Option<(Place, C)>>>,
}

/// No [`Sentinels`] can be made of this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot ask sentinels for a master: {0}")]
pub struct InvalidSentinels(String);

impl InvalidSentinels {
    /// With what is wrong, free of secrets.
    pub fn new(fault: impl Into<String>) -> Self {
        Self(fault.into())
    }
}

impl<C: SentinelClient> Sentinels<C> {
    /// Those of the master with this name.
    ///
    /// # Errors
    ///
    /// The name has other characters than sentinels allow (letters, digits, `.`, `-` and `_`) or none;
    /// there are no sentinels, or one is listed twice, which would have two votes.
    pub fn new(
        master: &str,
        sentinels: impl IntoIterator<Item = C>,
    ) -> Result<Self, InvalidSentinels> {
        let is_named = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        if master.is_empty() || !master.chars().all(is_named) {
            let name = Name(master.as_bytes());
            return Err(InvalidSentinels(format!(
                "the name of the master is {name:?}, but it has one or more letters, digits, '.', '-' and '_'"
            )));
        }
        let all: Arc<[C]> = sentinels.into_iter().collect();
        // The same in whatever order they are listed, so that one group is known as such.
        let mut labels: Vec<_> = all.iter().map(Client::label).collect();
        labels.sort_unstable();
        if labels.is_empty() {
            let none = "the list of sentinels is empty, but it needs one or more (three, usually)";
            return Err(InvalidSentinels(none.to_owned()));
        }
        if let Some(twice) = labels.windows(2).find(|pair| pair[0] == pair[1]) {
            let twice = format!(
                "{} is listed twice, but each sentinel has one vote",
                twice[0]
            );
            return Err(InvalidSentinels(twice));
        }
        Ok(Self {
            label: format!("{master}@{}", labels.join(",")).into(),
            master: master.into(),
            all,
            last: Arc::default(),
        })
    }

    /// The name of the master and the sentinels: `mymaster@10.0.0.1:26379,10.0.0.2:26379`.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Opens a connection to the master, as `client` does to its server.
    ///
    /// # Errors
    ///
    /// [`NodeError::not_sent`], with what each sentinel says where no majority names a master; what the
    /// master answers to the handshake, or to `ROLE`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what it has opened.
    pub fn connect<'a>(
        &'a self,
        client: &'a C,
        within: Duration,
    ) -> BoxFuture<'a, Result<Opened<C::Connection>, NodeError>> {
        // Boxed, since `client` may be what calls this.
        Box::pin(self.connect_by_role(client, within))
    }

    async fn connect_by_role(
        &self,
        client: &C,
        within: Duration,
    ) -> Result<Opened<C::Connection>, NodeError> {
        let runtime = ambient();
        let end = runtime.now().saturating_add(within);
        let place = self.find(within / 2).await?;
        let left = end.saturating_sub(runtime.now());
        let master = self.client_at(client, &place);
        let mut opened = master
            .connect(left)
            .await
            .map_err(|error| self.not_reached(&place, error))?;
        let left = end.saturating_sub(runtime.now());
        let role = asked::<C>(&mut opened, &["ROLE"], left).await;
        self.check_role(&place, role)?;
        let mut watch = self.watch(place);
        let Opened { connection, driver } = opened;
        Ok(Opened::new(connection, async move {
            match select(driver, watch.next()).await {
                Either::Left((why, _)) => why,
                Either::Right((why, _)) => {
                    why.unwrap_or_else(|| NodeError::connection("the sentinels are gone"))
                }
            }
        }))
    }

    /// A name may be looked up once at a time for each server, so the client of one is kept.
    fn client_at(&self, client: &C, place: &Place) -> C {
        let mut last = locked(&self.last);
        match &*last {
            Some((before, master)) if before == place => master.clone(),
            _ => {
                let master = client.at(&place.host, place.port);
                *last = Some((place.clone(), master.clone()));
                master
            }
        }
    }

    fn not_reached(&self, place: &Place, error: NodeError) -> NodeError {
        match error.kind() {
            // An answer is told as one: a lock may end its waiting for lack of permission.
            NodeErrorKind::Server => error,
            _ => {
                let message = format!("cannot connect to {place}, the master {}", self.master);
                NodeError::not_sent(message).with_source(error)
            }
        }
    }

    fn check_role(&self, place: &Place, role: Result<Reply, NodeError>) -> Result<(), NodeError> {
        let says = match role? {
            Reply::Array(items) => match items.into_iter().next() {
                Some(Reply::Bytes(role)) if role == b"master" => return Ok(()),
                Some(Reply::Bytes(role)) => format!("{:?}", Name(&role)),
                _ => "nothing".to_owned(),
            },
            _ => "nothing".to_owned(),
        };
        let why = format!("of its role it says {says}, and not \"master\"");
        let message = format!(
            "{place} is not the master {}, though the sentinels say so",
            self.master
        );
        Err(NodeError::not_sent(message).with_source(why))
    }

    /// Asks all sentinels, up to the moment at which they have decided.
    async fn find(&self, within: Duration) -> Result<Place, NodeError> {
        let mut asking: FuturesUnordered<_> =
            self.all
                .iter()
                .enumerate()
                .map(|(number, sentinel)| async move {
                    (number, self.answer_of(sentinel, within).await)
                })
                .collect();
        let mut late = ambient().sleep(within);
        let mut answers: Vec<Option<Answer>> = vec![None; self.all.len()];
        loop {
            match decide(&answers) {
                Decision::Master(place) => return Ok(place),
                Decision::None => break,
                Decision::Open => {}
            }
            match select(asking.next(), &mut late).await {
                Either::Left((Some((number, answer)), _)) => answers[number] = Some(answer),
                Either::Left((None, _)) | Either::Right(_) => break,
            }
        }
        let say = self.all.iter().zip(&answers).map(|(sentinel, answer)| {
            let label = sentinel.label();
            match answer {
                Some(answer) => format!("{label}: {answer}"),
                None => format!("{label}: no answer in {}", Ms(within)),
            }
        });
        let say = say.collect::<Vec<_>>().join("; ");
        let message = format!(
            "no majority of the sentinels names a master {}",
            self.master
        );
        Err(NodeError::not_sent(message).with_source(say))
    }

    async fn answer_of(&self, sentinel: &C, within: Duration) -> Answer {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.master];
        Answer::of(match sentinel.connect(within).await {
            Ok(mut opened) => asked::<C>(&mut opened, &words, within).await,
            Err(error) => Err(error),
        })
    }

    /// Ends when another server than this one is the master. Nothing of it is polled before it is woken,
    /// as often as the connection is.
    fn watch(&self, place: Place) -> FuturesUnordered<BoxFuture<'static, NodeError>> {
        let (heard, mut signs) = mpsc::channel(0);
        let parts = FuturesUnordered::new();
        for number in 0..self.all.len() {
            let (sentinels, heard) = (self.clone(), Heard(Mutex::new(heard.clone()).into()));
            let listens: BoxFuture<'static, NodeError> =
                Box::pin(async move { sentinels.listen_to(number, heard).await });
            parts.push(listens);
        }
        let sentinels = self.clone();
        parts.push(Box::pin(async move {
            while signs.next().await.is_some() {
                ambient().sleep(SETTLING).await;
                while signs.next().now_or_never().flatten().is_some() {}
                match sentinels.find(PATIENCE).await {
                    Ok(newest) if newest != place => {
                        let why = format!("{newest} has taken the place of {place}");
                        return NodeError::connection("the server is not the master any more")
                            .with_source(why);
                    }
                    _ => {}
                }
            }
            std::future::pending().await
        }));
        parts
    }

    /// Listens to one sentinel, again and again.
    async fn listen_to(&self, number: usize, heard: Heard) -> NodeError {
        loop {
            let tell = heard.clone();
            let listened = self.all[number].listen(CHANNEL, move || tell.give(), PATIENCE);
            let within = ambient().sleep(PATIENCE);
            if let Either::Left((Ok(listens), _)) = select(pin!(listened), within).await {
                // What was said before was missed.
                heard.give();
                listens.await;
            }
            ambient().sleep(PAUSE).await;
        }
    }
}

/// Tells that something may have changed. What has been told and not been heard yet is told once.
#[derive(Clone)]
struct Heard(Arc<Mutex<mpsc::Sender<()>>>);

impl Heard {
    fn give(&self) {
        // Full, if it has been told already.
        locked(&self.0).try_send(()).ok();
    }
}

impl<C> Clone for Sentinels<C> {
    fn clone(&self) -> Self {
        Self {
            label: Arc::clone(&self.label),
            master: Arc::clone(&self.master),
            all: Arc::clone(&self.all),
            last: Arc::clone(&self.last),
        }
    }
}

impl<C> fmt::Debug for Sentinels<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sentinels").field(&self.label).finish()
    }
}
