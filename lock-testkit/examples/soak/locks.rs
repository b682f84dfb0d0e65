//! How the locks of a soak are built.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{RedisNode, Redlock, RestartGuard};
use lock_fred::FredNode;
use lock_redis_rs::RedisRsNode;

use crate::BoxError;
use crate::args::{Backend, Rules};
use crate::work::LONGEST_TTL;

/// All servers have one clock. This is for what it may be slewed by.
const CLOCK_SKEW: Duration = Duration::from_millis(100);

/// The locks of a process.
pub(crate) fn build(
    backend: Backend,
    rules: Rules,
    nodes: &[String],
    owner: String,
) -> Result<Redlock, BoxError> {
    let nodes: Vec<_> = nodes
        .iter()
        .map(|node| connect(backend, node))
        .collect::<Result<_, _>>()?;
    let locks = Redlock::builder()
        .nodes(nodes)
        .owner(owner)
        .ttl(LONGEST_TTL)
        .quorum(rules.quorum);
    let locks = match rules.is_guarded {
        true => locks.restart_guard(RestartGuard::new(LONGEST_TTL).clock_skew(CLOCK_SKEW)),
        false => locks,
    };
    Ok(locks.build()?.into())
}

/// Says of all nodes that they have forgotten nothing yet, before the first lock is taken.
pub(crate) fn bootstrap(backend: Backend, rules: Rules, nodes: &[String]) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let locks = build(backend, rules, nodes, "the soak".to_owned())?;
        locks.bootstrap().await?;
        Ok(locks.shutdown().await?)
    })
}

/// The node of a URL, or of `NAME=URL,URL,..`: the sentinels of a master.
fn connect(backend: Backend, node: &str) -> Result<Arc<dyn RedisNode>, BoxError> {
    let Some((name, sentinels)) = node.split_once('=') else {
        return Ok(match backend {
            Backend::RedisRs => Arc::new(RedisRsNode::new(node)?),
            Backend::Fred => Arc::new(FredNode::new(node)?),
        });
    };
    let master = format!("redis://{name}");
    let sentinels = sentinels.split(',');
    Ok(match backend {
        Backend::RedisRs => {
            let sentinels: Result<Vec<_>, _> = sentinels.map(RedisRsNode::new).collect();
            Arc::new(RedisRsNode::new(master)?.sentinels(sentinels?)?)
        }
        Backend::Fred => {
            let sentinels: Result<Vec<_>, _> = sentinels.map(FredNode::new).collect();
            Arc::new(FredNode::new(master)?.sentinels(sentinels?)?)
        }
    })
}
