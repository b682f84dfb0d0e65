//! What a broken lock makes of an error.

use std::time::Duration;

use lock_core::{
    AcquireError, Contended, ExtendError, InvalidInput, NodeError, NodeReport, NodeReports,
    NodeVote, ReleaseError, Unavailable,
};

use crate::mutants::Bug;

pub(crate) fn acquire(bug: Bug, error: AcquireError) -> AcquireError {
    match (bug, error) {
        (Bug::RefusalNamesNothing, AcquireError::Invalid(invalid)) => {
            AcquireError::Invalid(another(&invalid))
        }
        (Bug::WaitNotCounted, AcquireError::Contended(mut contended)) => {
            contended.waited = Duration::ZERO;
            AcquireError::Contended(contended)
        }
        (Bug::ContentionIsOutage, AcquireError::Contended(contended)) => {
            let mut outage = Unavailable::default();
            outage.nodes = contended.nodes;
            AcquireError::Unavailable(outage)
        }
        (Bug::OutageIsContention, AcquireError::Unavailable(_)) => {
            AcquireError::Contended(Contended::default())
        }
        (bug, AcquireError::Unavailable(mut outage)) => {
            outage.nodes = reports(bug, &outage.nodes);
            AcquireError::Unavailable(outage)
        }
        (_, error) => error,
    }
}

pub(crate) fn extend(bug: Bug, error: ExtendError) -> ExtendError {
    match (bug, error) {
        (Bug::RefusalNamesNothing, ExtendError::Invalid(invalid)) => {
            ExtendError::Invalid(another(&invalid))
        }
        (Bug::OutageIsLoss, ExtendError::Unavailable { .. }) => ExtendError::Lost,
        (bug, ExtendError::Unavailable { quorum, nodes }) => {
            let nodes = reports(bug, &nodes);
            ExtendError::Unavailable { quorum, nodes }
        }
        (_, error) => error,
    }
}

pub(crate) fn release(bug: Bug, error: ReleaseError) -> ReleaseError {
    match error {
        ReleaseError::Unavailable { quorum, nodes } => {
            let nodes = reports(bug, &nodes);
            ReleaseError::Unavailable { quorum, nodes }
        }
        error => error,
    }
}

/// A refusal for another reason or of another value.
fn another(invalid: &InvalidInput) -> InvalidInput {
    match invalid {
        InvalidInput::ResourceEmpty => InvalidInput::ResourceTooLong { len: 0, max: 0 },
        _ => InvalidInput::TtlTooShort {
            ttl: Duration::from_micros(500),
        },
    }
}

fn reports(bug: Bug, reports: &NodeReports) -> NodeReports {
    let report = |(number, report): (usize, &NodeReport)| {
        let (label, vote) = (report.label.clone(), report.vote.clone());
        match (bug, vote) {
            (Bug::NoLabels, vote) => NodeReport::new(format!("node {number}"), vote),
            (Bug::VotesHidden, NodeVote::Failed(_)) => NodeReport::new(label, NodeVote::Open),
            (Bug::CausesHidden, NodeVote::Failed(_)) => {
                NodeReport::new(label, NodeVote::Failed(NodeError::connection("failed")))
            }
            (_, vote) => NodeReport::new(label, vote),
        }
    };
    let reports = reports.as_slice().iter().enumerate();
    let count = if bug == Bug::NoVotes { 0 } else { usize::MAX };
    NodeReports::from(reports.take(count).map(report).collect::<Vec<_>>())
}
