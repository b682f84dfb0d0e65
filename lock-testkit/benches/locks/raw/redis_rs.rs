//! The `redis` crate by hand.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, Value};

use super::Connection;
use crate::BenchResult;

/// Long enough that no call waits for a place in the client's queue, as in `RedisRsNode`.
const QUEUE: usize = 16 * 1024;

#[derive(Clone)]
pub(crate) struct RedisRs(MultiplexedConnection);

impl Connection for RedisRs {
    type Command = Cmd;

    async fn connect(url: &str) -> BenchResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
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

impl RedisRs {
    /// Loads a script, and returns its digest.
    pub(crate) async fn load(&self, script: &str) -> BenchResult<String> {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(script);
        Ok(command.query_async(&mut self.0.clone()).await?)
    }
}
