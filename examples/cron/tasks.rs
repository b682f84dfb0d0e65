//! Instances as tasks of this process, over in-process nodes.

use futures::channel::mpsc;

use crate::BoxError;
use crate::clock;
use crate::instance;
use crate::nodes;
use crate::plan::{Me, Plan};
use crate::report::{Ending, Message, Messages, Teller};
use crate::rt::{self, Tasks};

/// Starts a task for each instance. Dropping the set ends them.
pub(crate) fn start(plan: &Plan, instances: usize) -> Result<(Messages, Tasks<()>), BoxError> {
    let (teller, messages) = mpsc::unbounded();
    let nodes = nodes::in_process();
    let mut tasks = Tasks::new();
    for number in 1..=instances {
        let (nodes, plan, teller) = (nodes.clone(), plan.clone(), teller.clone());
        tasks.spawn(async move {
            let ending = match live(number, instances, &nodes, &plan, &teller).await {
                Ok(()) => Ending::AsPlanned,
                Err(error) => Ending::TooEarly(error.to_string()),
            };
            // If nobody listens any more, the program is about to end.
            teller.unbounded_send((number, Message::Ended(ending))).ok();
        });
    }
    Ok((messages, tasks))
}

/// All lives of an instance.
async fn live(
    number: usize,
    instances: usize,
    nodes: &nodes::Nodes,
    plan: &Plan,
    teller: &Teller,
) -> Result<(), BoxError> {
    for (life, span) in plan.lives().into_iter().enumerate() {
        if let Some(start) = span.from {
            rt::sleep(instance::until(start)).await;
        }
        // Each has a lock of its own, as in a process of its own.
        let locks = nodes::locks(nodes.clone())?;
        let me = Me {
            number,
            clock_offset: clock::offset(number, instances),
            life,
        };
        let tell = |report| Ok(teller.unbounded_send((number, Message::Report(report)))?);
        instance::run(&*locks, plan, me, tell).await?;
    }
    Ok(())
}
