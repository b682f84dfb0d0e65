//! The `redis` crate by hand.

use lock_testkit::RedisServer;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, Value};

use super::Connection;
use crate::BenchResult;

/// Long enough that no call waits for a place in the client's queue, as in `RedisRsNode`.
const QUEUE: usize = 16 * 1024;

#[derive(Clone)]
pub(crate) struct RedisRs(MultiplexedConnection);

impl Connection for RedisRs {
    type Command = Cmd;

    async fn connect(server: &RedisServer) -> BenchResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let client = Client::open(server.url())?;
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        Ok(Self(connection.await?))
    }

    fn command(words: &[&str]) -> Cmd {
        let mut command = Cmd::new();
        command.arg(words);
        command
    }

    async fn ask(&self, command: &Cmd) -> BenchResult<bool> {
        let answer = self.0.clone().req_packed_command(command).await?;
        Ok(matches!(answer, Value::Okay | Value::Int(1)))
    }
}
