//! Scripts that the server is made to know or not, and the bugs of those who send them.

use lock_core::{Command, NodeError, Reply};

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode};

/// Whether the server knows the script, if it needs one; a source makes it known.
pub(crate) fn enter(node: &BrokenNode, command: &Command) -> Result<(), NodeError> {
    let Some(script) = command.operation().script_name() else {
        return Ok(());
    };
    let mut memory = node.state.lock();
    if *command.args()[0] == *b"EVAL" && node.bug != Bug::SendsNoSource {
        memory.known_scripts.insert(script);
    }
    match memory.known_scripts.contains(script) {
        true => Ok(()),
        false => Err(NodeError::server(
            "NOSCRIPT No matching script. Please use EVAL.",
        )),
    }
}

/// What a node makes of a script that is not known.
pub(crate) async fn refused(node: &BrokenNode, command: &Command, error: NodeError) -> Answer {
    match node.bug {
        // As a client that sends the source by itself.
        Bug::HidesNoscript => node.do_well(command.operation().clone()).await,
        Bug::RunsInSpiteOfNoscript => {
            drop(node.do_well(command.operation().clone()).await);
            Err(error)
        }
        Bug::NoscriptIsARefusal => Ok(Reply::Int(0)),
        Bug::ScriptErrorsHaveNoCode => Err(NodeError::connection("no such script")),
        _ => Err(error),
    }
}
