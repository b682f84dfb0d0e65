//! The `fred` crate by hand.

use fred::bytes::Bytes;
use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ConnectionConfig, TcpConfig};
use fred::types::{ClusterHash, CustomCommand, Resp3Frame, Value};

use super::Connection;
use crate::BenchResult;

#[derive(Clone)]
pub(crate) struct Fred(Client);

impl Connection for Fred {
    type Command = (CustomCommand, Vec<Value>);

    async fn connect(url: &str) -> BenchResult<Self> {
        let connection = ConnectionConfig {
            max_command_attempts: 1,
            tcp: TcpConfig {
                nodelay: Some(true),
                ..TcpConfig::default()
            },
            ..ConnectionConfig::default()
        };
        let config = Config::from_url(url)?;
        let client = Client::new(config, None, Some(connection), None);
        client.init().await?;
        Ok(Self(client))
    }

    fn command(words: &[&str]) -> Self::Command {
        let (name, args) = words.split_first().unwrap_or((&"PING", &[]));
        let args = args
            .iter()
            .map(|word| Value::Bytes(Bytes::copy_from_slice(word.as_bytes())));
        let command = CustomCommand::new(*name, ClusterHash::FirstKey, false);
        (command, args.collect())
    }

    async fn ask(&self, (command, args): &Self::Command) -> BenchResult<bool> {
        let answer = self.0.custom_raw(command.clone(), args.clone()).await?;
        Ok(match answer {
            Resp3Frame::SimpleString { data, .. } => data == "OK",
            Resp3Frame::Number { data, .. } => data == 1,
            _ => false,
        })
    }
}
