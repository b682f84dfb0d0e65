//! What a link sends its commands over.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};

#[cfg(feature = "bb8")]
use crate::pump::Pump;

/// A way into the queue of a connection. Clones lead into the same queue.
#[derive(Clone)]
pub(crate) enum Wire {
    /// A connection that this crate opened.
    Own(MultiplexedConnection),
    /// One that a pool's manager opened.
    #[cfg(feature = "bb8")]
    Pumped(Pump),
}

impl Wire {
    /// Sends the command at the first poll, and waits for its answer.
    pub(crate) async fn send_packed_command(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Own(connection) => connection.send_packed_command(cmd).await,
            #[cfg(feature = "bb8")]
            Self::Pumped(pump) => pump.send(cmd).await,
        }
    }
}
