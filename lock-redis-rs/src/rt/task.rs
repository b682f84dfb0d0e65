//! A background task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task, which goes on when this handle is dropped. It is ready when the task has ended.
#[derive(Debug)]
pub(crate) enum Task {
    #[cfg(feature = "tokio")]
    Tokio(tokio::task::JoinHandle<()>),
    #[cfg(feature = "smol")]
    Smol(super::smol::DetachedTask),
}

impl Task {
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio(task) => task.is_finished(),
            #[cfg(feature = "smol")]
            Self::Smol(task) => task.is_finished(),
        }
    }

    /// Ends the task, without waiting for that.
    pub(crate) fn abort(&mut self) {
        match self {
            #[cfg(feature = "tokio")]
            Self::Tokio(task) => task.abort(),
            #[cfg(feature = "smol")]
            Self::Smol(task) => task.abort(),
        }
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self {
            // Whether it was aborted or panicked: it has ended.
            #[cfg(feature = "tokio")]
            Self::Tokio(task) => Pin::new(task).poll(cx).map(drop),
            #[cfg(feature = "smol")]
            Self::Smol(task) => Pin::new(task).poll(cx),
        }
    }
}
