//! Instances as tasks of this process, over in-process nodes.

use futures::channel::mpsc;

use crate::BoxError;
use crate::clock;
use crate::instance;
use crate::nodes;
use crate::plan::{Me, Plan};
use crate::report::{Ending, Message, Messages};
use crate::rt::Tasks;

/// Starts a task for each instance. Dropping the set ends them.
pub(crate) fn start(plan: &Plan, instances: usize) -> Result<(Messages, Tasks<()>), BoxError> {
    let (teller, messages) = mpsc::unbounded();
    let nodes = nodes::in_process();
    let mut tasks = Tasks::new();
    for number in 1..=instances {
        // Each instance has a lock of its own, as in a process of its own.
        let locks = nodes::locks(nodes.clone())?;
        let me = Me::new(number, clock::offset(number, instances));
        let (plan, teller) = (plan.clone(), teller.clone());
        tasks.spawn(async move {
            let tell = |report| Ok(teller.unbounded_send((number, Message::Report(report)))?);
            let ending = match instance::run(&*locks, &plan, me, tell).await {
                Ok(()) => Ending::AsPlanned,
                Err(error) => Ending::TooEarly(error.to_string()),
            };
            // If nobody listens any more, the program is about to end.
            teller.unbounded_send((number, Message::Ended(ending))).ok();
        });
    }
    Ok((messages, tasks))
}
