//! A client in memory, and the server at its other end.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;

use crate::backend::{Client, Connection, Opened};
use crate::node::{Command, NodeError, Reply};
use crate::sync::locked;

/// What becomes of a connect.
#[derive(Clone, Debug, Default)]
pub(super) enum Accept {
    #[default]
    Yes,
    No(NodeError),
    Never,
    Panic,
}

/// The server, as the tests move it.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    accept: Accept,
    connects: usize,
    /// How often another address was asked for.
    moves: usize,
    connections: Vec<Line>,
    /// The driver writes what was sent, rather than the call.
    driver_writes: bool,
    /// What was sent: the number of the connection, the first word and the key.
    log: Vec<String>,
    /// What `send` ends with at once.
    refusal: Option<NodeError>,
    /// What happens between the look at a connection and the next call on it.
    before_call: Option<Box<dyn FnOnce() + Send>>,
    /// The key at which `send` panics.
    panics_at: Option<&'static str>,
}

struct Line {
    unanswered: VecDeque<oneshot::Sender<Result<Reply, NodeError>>>,
    driver: Option<oneshot::Sender<NodeError>>,
    /// What waits for the driver.
    unwritten: Vec<String>,
    waker: Option<Waker>,
    is_open: bool,
}

impl Server {
    pub(super) fn client(&self) -> Toy {
        Toy(self.clone())
    }

    pub(super) fn accept(&self, accept: Accept) {
        locked(&self.0).accept = accept;
    }

    /// What calls end with at once, without being sent.
    pub(super) fn refuse(&self, error: Option<NodeError>) {
        locked(&self.0).refusal = error;
    }

    /// From now on it is the driver that writes.
    pub(super) fn let_the_driver_write(&self) {
        locked(&self.0).driver_writes = true;
    }

    /// Lets this happen when the next call has found its connection and is not on it yet.
    pub(super) fn before_call(&self, happens: impl FnOnce() + Send + 'static) {
        locked(&self.0).before_call = Some(Box::new(happens));
    }

    pub(super) fn panic_at(&self, key: &'static str) {
        locked(&self.0).panics_at = Some(key);
    }

    pub(super) fn connects(&self) -> usize {
        locked(&self.0).connects
    }

    /// How often another address was to be tried.
    pub(super) fn moves(&self) -> usize {
        locked(&self.0).moves
    }

    /// The numbers of the connections that are open.
    pub(super) fn open(&self) -> Vec<usize> {
        let state = locked(&self.0);
        (0..state.connections.len())
            .filter(|n| state.connections[*n].is_open)
            .collect()
    }

    pub(super) fn log(&self) -> Vec<String> {
        locked(&self.0).log.clone()
    }

    pub(super) fn forget_log(&self) {
        locked(&self.0).log.clear();
    }

    /// Remembers that this was sent as well.
    pub(super) fn note(&self, connection: usize, text: &str) {
        locked(&self.0).log.push(format!("{connection} {text}"));
    }

    /// Answers everything on all connections.
    pub(super) fn answer_all(&self) {
        let connections = locked(&self.0).connections.len();
        for number in 0..connections {
            while self.answer(number, Ok(Reply::ok())) {}
        }
    }

    /// Answers the oldest command on a connection; `false` if there is none.
    pub(super) fn answer(&self, connection: usize, answer: Result<Reply, NodeError>) -> bool {
        let oldest = locked(&self.0).connections[connection]
            .unanswered
            .pop_front();
        // Its caller may be gone.
        oldest.map(|reply| reply.send(answer).ok()).is_some()
    }

    /// Takes the oldest command on a connection away, for others to be answered first.
    pub(super) fn hold_oldest(&self, connection: usize) -> Held {
        let mut state = locked(&self.0);
        Held(state.connections[connection].unanswered.pop_front())
    }

    pub(super) fn put_back(&self, connection: usize, held: Held) {
        let mut state = locked(&self.0);
        let unanswered = &mut state.connections[connection].unanswered;
        held.0
            .into_iter()
            .for_each(|held| unanswered.push_front(held));
    }

    /// Writes what waits for the driver of a connection.
    fn write(&self, connection: usize, waker: &Waker) {
        let mut state = locked(&self.0);
        let line = &mut state.connections[connection];
        line.waker = Some(waker.clone());
        let written = std::mem::take(&mut line.unwritten);
        state.log.extend(written);
    }

    /// Breaks a connection.
    pub(super) fn cut(&self, connection: usize, why: NodeError) {
        let driver = locked(&self.0).connections[connection].driver.take();
        driver.unwrap().send(why).unwrap();
    }
}

/// A command that waits for its answer.
pub(super) struct Held(Option<oneshot::Sender<Result<Reply, NodeError>>>);

pub(super) struct Toy(Server);

impl Client for Toy {
    type Connection = Wire;

    fn label(&self) -> &str {
        "toy:1"
    }

    fn prefer_another_address(&self) {
        locked(&self.0.0).moves += 1;
    }

    async fn connect(&self, _within: Duration) -> Result<Opened<Wire>, NodeError> {
        let accept = {
            let mut state = locked(&self.0.0);
            state.connects += 1;
            state.accept.clone()
        };
        match accept {
            Accept::Yes => {}
            Accept::No(error) => return Err(error),
            Accept::Never => std::future::pending().await,
            Accept::Panic => panic!("on purpose"),
        }
        let (driver, broken) = oneshot::channel();
        let mut state = locked(&self.0.0);
        let number = state.connections.len();
        state.connections.push(Line {
            unanswered: VecDeque::new(),
            driver: Some(driver),
            unwritten: Vec::new(),
            waker: None,
            is_open: true,
        });
        let open = Open(self.0.clone(), number);
        let server = self.0.clone();
        let mut broken = broken;
        let wire = Wire {
            server: self.0.clone(),
            number,
        };
        Ok(Opened::new(wire, async move {
            let _open = open;
            let why = poll_fn(|cx| {
                server.write(number, cx.waker());
                broken.poll_unpin(cx)
            });
            why.await
                .unwrap_or_else(|_| NodeError::connection("the toy is gone"))
        }))
    }
}

/// Closes the connection with its driver.
struct Open(Server, usize);

impl Drop for Open {
    fn drop(&mut self) {
        locked(&self.0.0).connections[self.1].is_open = false;
    }
}

pub(super) struct Wire {
    server: Server,
    pub(super) number: usize,
}

impl Connection for Wire {
    fn send(
        &self,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let (server, number) = (self.server.clone(), self.number);
        let before_call = locked(&server.0).before_call.take();
        before_call.into_iter().for_each(|happens| happens());
        let key = String::from_utf8_lossy(command.operation().key()).into_owned();
        let word = String::from_utf8_lossy(&command.args()[0]).into_owned();
        let (reply, answer) = oneshot::channel();
        let hand_over = move || {
            let mut state = locked(&server.0);
            if let Some(error) = &state.refusal {
                return Err(error.clone());
            }
            assert_ne!(state.panics_at, Some(&*key), "on purpose");
            let text = format!("{number} {word} {key}");
            let driver_writes = state.driver_writes;
            let line = &mut state.connections[number];
            line.unanswered.push_back(reply);
            if !driver_writes {
                state.log.push(text);
                return Ok(());
            }
            line.unwritten.push(text);
            let waker = line.waker.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
            Ok(())
        };
        async move {
            hand_over()?;
            // The reply of a toy that is gone never comes: the keeper has to notice.
            match answer.await {
                Ok(answer) => answer,
                Err(_) => std::future::pending().await,
            }
        }
    }
}
