//! Bugs of replies: their form, and what becomes of an error.

use lock_core::node::{NodeErrorKind, Operation};
use lock_core::{NodeError, Reply};

use crate::mutants::Bug;
use crate::node::Answer;

/// What the bug makes of an answer.
pub(crate) fn altered(bug: Bug, operation: &Operation, answer: Answer) -> Answer {
    match (bug, answer) {
        (Bug::ErrorsAreRefusals, Err(error)) if error.kind() == NodeErrorKind::Server => {
            Ok(match operation {
                Operation::Acquire { .. } if operation.script_name().is_none() => Reply::Nil,
                Operation::Acquire { .. } | Operation::Inspect { .. } => {
                    Reply::Array(vec![Reply::Nil, Reply::Int(-1)])
                }
                Operation::Release { keys, .. } if keys.is_several() => {
                    Reply::Array(vec![Reply::Int(-1); keys.as_slice().len()])
                }
                Operation::Extend { entries } => Reply::Array(vec![Reply::Int(-1); entries.len()]),
                _ => Reply::Int(-1),
            })
        }
        (Bug::RefusalsAreErrors, Ok(Reply::Nil)) => Err(NodeError::server("ERR it is held")),
        (Bug::ScriptRefusalsAreErrors, Ok(Reply::Int(-1))) => {
            Err(NodeError::server("ERR it is held"))
        }
        (Bug::ScriptErrorsHaveNoCode, Err(error)) if error.code().is_some() => {
            Err(NodeError::connection("the script failed").with_source(error))
        }
        (_, Ok(reply)) => Ok(altered_reply(bug, reply, true)),
        (_, error) => error,
    }
}

fn altered_reply(bug: Bug, reply: Reply, outermost: bool) -> Reply {
    match (bug, reply) {
        (Bug::IntegersAreText, Reply::Int(number)) => Reply::Bytes(number.to_string().into()),
        (Bug::NilIsEmptyText, Reply::Nil) => Reply::Bytes(Vec::new()),
        (Bug::EmptyTextIsNil, Reply::Bytes(text)) if text.is_empty() => Reply::Nil,
        (Bug::OkIsOne, Reply::Bytes(text)) if text == b"OK" => Reply::Int(1),
        (Bug::OkIsTrueEverywhere, Reply::Int(1)) if outermost => Reply::ok(),
        (Bug::TextIsLossy, Reply::Bytes(text)) => {
            Reply::Bytes(String::from_utf8_lossy(&text).into_owned().into())
        }
        (Bug::TextIsANumberIfItCan, Reply::Bytes(text)) => {
            match std::str::from_utf8(&text).map(str::parse) {
                Ok(Ok(number)) => Reply::Int(number),
                _ => Reply::Bytes(text),
            }
        }
        (Bug::ArraysOfOneAreTheOne, Reply::Array(parts)) if parts.len() == 1 => parts[0].clone(),
        (Bug::ArraysAreTurned, Reply::Array(parts)) => {
            Reply::Array(parts.into_iter().rev().collect())
        }
        (Bug::TellsSeconds, Reply::Array(parts)) => match &parts[..] {
            [holder, Reply::Int(left)] if *left > 0 => {
                Reply::Array(vec![holder.clone(), Reply::Int(left / 1000)])
            }
            _ => Reply::Array(parts),
        },
        (Bug::TellsZeroForEver, Reply::Array(parts)) => match &parts[..] {
            [holder @ (Reply::Bytes(_) | Reply::Nil), Reply::Int(-1)] => {
                Reply::Array(vec![holder.clone(), Reply::Int(0)])
            }
            _ => Reply::Array(parts),
        },
        (_, Reply::Array(parts)) => {
            let parts = parts
                .into_iter()
                .map(|part| altered_reply(bug, part, false));
            Reply::Array(parts.collect())
        }
        (_, reply) => reply,
    }
}
