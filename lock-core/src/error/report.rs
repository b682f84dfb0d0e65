//! What each node said, for errors.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::node::NodeError;

/// One node's part in an operation that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node's label.
    pub label: Arc<str>,
    /// What it said.
    pub vote: NodeVote,
}

/// What a node said to an operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeVote {
    /// Yes.
    Granted,
    /// No: somebody else holds the lock there, or the lock is gone there.
    Refused,
    /// Neither, for this cause.
    Failed(NodeError),
    /// It was not asked, or its answer was not waited for, since the outcome was certain.
    Open,
}

impl NodeReport {
    /// The report of one node, for locks that are not made by this crate.
    pub fn new(label: impl Into<Arc<str>>, vote: NodeVote) -> Self {
        Self {
            label: label.into(),
            vote,
        }
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.label)?;
        match &self.vote {
            NodeVote::Granted => f.write_str("granted"),
            NodeVote::Refused => f.write_str("refused"),
            NodeVote::Open => f.write_str("not waited for"),
            NodeVote::Failed(error) => {
                write!(f, "{error}")?;
                let mut cause = error.source();
                while let Some(error) = cause {
                    write!(f, ": {error}")?;
                    cause = error.source();
                }
                Ok(())
            }
        }
    }
}

/// What all nodes said, in the configured order. Displays as one line.
#[derive(Clone, Debug, Default)]
pub struct NodeReports(Vec<NodeReport>);

impl NodeReports {
    /// The reports, in the configured order of the nodes.
    #[must_use]
    pub fn as_slice(&self) -> &[NodeReport] {
        &self.0
    }

    /// The first node that failed.
    pub(crate) fn first_error(&self) -> Option<&NodeError> {
        self.0.iter().find_map(|report| match &report.vote {
            NodeVote::Failed(error) => Some(error),
            _ => None,
        })
    }
}

impl From<Vec<NodeReport>> for NodeReports {
    fn from(reports: Vec<NodeReport>) -> Self {
        Self(reports)
    }
}

impl fmt::Display for NodeReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, report) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{report}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_listed_with_its_whole_chain_of_causes() {
        let refused = NodeError::not_sent("cannot connect").with_source("connection refused");
        let reports = NodeReports::from(vec![
            NodeReport::new("a:1", NodeVote::Granted),
            NodeReport::new("b:2", NodeVote::Failed(refused)),
            NodeReport::new("c:3", NodeVote::Refused),
            NodeReport::new("d:4", NodeVote::Open),
        ]);
        assert_eq!(
            reports.to_string(),
            "a:1: granted; b:2: cannot connect: connection refused; c:3: refused; \
             d:4: not waited for"
        );
    }
}
