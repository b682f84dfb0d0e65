//! Nodes that misreport votes, for bugs of counting them.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{Operation, Subscription};
use lock_core::{Command, NodeError, RedisNode, Reply};
use lock_testkit::MemoryNode;

use crate::mutants::Bug;

#[derive(Clone, Debug)]
pub(crate) struct BrokenNode {
    bug: Bug,
    number: usize,
    node: MemoryNode,
}

impl BrokenNode {
    pub(crate) fn new(bug: Bug, number: usize, node: &MemoryNode) -> Self {
        let node = node.clone();
        Self { bug, number, node }
    }
}

#[async_trait]
impl RedisNode for BrokenNode {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let reply = self.node.execute(command, within).await;
        let by_script = match command.operation() {
            Operation::Acquire { keys, .. } if !keys.is_several() => {
                command.operation().script_name().is_some()
            }
            _ => return reply,
        };
        // An answer at the last moment would come too late for the engine.
        match (self.bug, reply) {
            (Bug::QuorumOfReachable, Err(_)) => Ok(granted(by_script)),
            (Bug::QuorumMinusOne, Err(_)) if self.number == 0 => Ok(granted(by_script)),
            (Bug::ErrorsAreRefusals, Err(_)) if by_script => {
                Ok(Reply::Array(vec![Reply::Nil, Reply::Int(-1)]))
            }
            (Bug::ErrorsAreRefusals, Err(_)) => Ok(Reply::Nil),
            (_, reply) => reply,
        }
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.node.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.node.label()
    }
}

fn granted(by_script: bool) -> Reply {
    if by_script {
        Reply::Int(1)
    } else {
        Reply::ok()
    }
}
