//! What the engine needs of an async runtime: tasks, time, names of hosts and sockets.
//!
//! Callers on tokio are served by their tokio runtime (feature `tokio`), all others by smol's
//! global executor (feature `smol`), which has threads of its own and so works with any executor.
//! No other module knows which of them is on, but for what bb8 needs, which is tokio.

mod socket;
mod task;

pub(crate) use socket::{Driver, Socket};
pub(crate) use task::Task;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use lock_core::NodeError;

cfg_if::cfg_if! {
    if #[cfg(feature = "tokio")] {
        mod tokio;

        // Tokio's, so that a paused clock holds here too.
        pub(crate) use ::tokio::time::Instant;
        // Tokio would let a task that has done much wait before it sends, and a later call of
        // another task could overtake it (rule N12).
        pub(crate) use ::tokio::task::coop::unconstrained;
    } else {
        pub(crate) use std::time::Instant;

        /// Nothing holds a task back here, unless it runs on tokio, which a build without the
        /// feature `tokio` is not for: the crate docs say so.
        pub(crate) fn unconstrained<F>(future: F) -> F {
            future
        }
    }
}

#[cfg(feature = "smol")]
mod smol;

/// A day: for a time so long that no clock can hold its end.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// A runtime to run on.
#[derive(Clone, Debug)]
pub(crate) enum Runtime {
    #[cfg(feature = "tokio")]
    Tokio(tokio::Tokio),
    #[cfg(feature = "smol")]
    Smol(smol::Smol),
}

/// Which runtime it is, without holding on to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    #[cfg(feature = "tokio")]
    Tokio(::tokio::runtime::Id),
    #[cfg(feature = "smol")]
    Smol,
}

/// Does the same with whichever runtime it is.
macro_rules! on_each {
    ($runtime:expr, $one:ident => $what:expr) => {
        match $runtime {
            #[cfg(feature = "tokio")]
            Runtime::Tokio($one) => $what,
            #[cfg(feature = "smol")]
            Runtime::Smol($one) => $what,
        }
    };
}

impl Runtime {
    /// The runtime that serves the caller.
    pub(crate) fn current() -> Result<Self, NodeError> {
        #[cfg(feature = "tokio")]
        if let Some(runtime) = tokio::Tokio::current() {
            return Ok(Self::Tokio(runtime));
        }
        cfg_if::cfg_if! {
            if #[cfg(feature = "smol")] {
                Ok(Self::Smol(smol::Smol))
            } else {
                Err(NodeError::not_sent(
                    "needs a tokio runtime, or the feature `smol` of lock-redis-rs",
                ))
            }
        }
    }

    #[cfg(feature = "bb8")]
    pub(crate) fn is_tokio(&self) -> bool {
        match self {
            Self::Tokio(_) => true,
            #[cfg(feature = "smol")]
            Self::Smol(_) => false,
        }
    }

    pub(crate) fn id(&self) -> Id {
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio(runtime) => Id::Tokio(runtime.id()),
            #[cfg(feature = "smol")]
            Self::Smol(_) => Id::Smol,
        }
    }

    /// Whether it has timers. Called on the runtime itself.
    pub(crate) fn probe(&self) -> Result<(), NodeError> {
        on_each!(self, runtime => runtime.probe())
    }

    /// Runs a task. If the runtime has ended, the task is dropped, perhaps at once, so that no
    /// lock may be held which its end takes.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        on_each!(self, runtime => runtime.spawn(task))
    }

    /// Waits until a moment, in a task of this runtime.
    pub(crate) async fn sleep_until(&self, at: Instant) {
        on_each!(self, runtime => runtime.sleep_until(at).await);
    }

    /// Waits for a future, in a task of this runtime, but no longer than until a moment.
    pub(crate) async fn until<F: Future>(&self, at: Instant, future: F) -> Option<F::Output> {
        match select(pin!(future), pin!(self.sleep_until(at))).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(((), _)) => None,
        }
    }

    /// The addresses of a host.
    pub(crate) async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        on_each!(self, runtime => runtime.look_up(host, port).await)
    }

    pub(crate) async fn connect_tcp(&self, address: SocketAddr) -> io::Result<Socket> {
        on_each!(self, runtime => runtime.connect_tcp(address).await)
    }

    #[cfg(unix)]
    pub(crate) async fn connect_unix(&self, path: &std::path::Path) -> io::Result<Socket> {
        on_each!(self, runtime => runtime.connect_unix(path).await)
    }
}

impl Id {
    /// Whether it is the runtime that serves the caller. Every call asks this.
    pub(crate) fn is_current(self) -> bool {
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio(id) => lock_core::runtime::TokioRuntime::is_current(id),
            #[cfg(all(feature = "smol", feature = "tokio"))]
            Self::Smol => !tokio::is_near(),
            #[cfg(all(feature = "smol", not(feature = "tokio")))]
            Self::Smol => true,
        }
    }
}

/// When a time that begins now will be over.
pub(crate) fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + FAR)
}
