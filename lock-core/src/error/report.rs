//! The answer of each node, for errors.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use std::{slice, vec};

use crate::display::{Line, Ms, tenths};
use crate::node::NodeError;

/// The answer of one node in an operation that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node's label.
    pub label: Arc<str>,
    /// Its answer.
    pub vote: NodeVote,
    /// The time after which its last answer came that was too late for the node timeout, if it has not
    /// answered in time since. Then it is the timeout that is too short, or the node too slow, and neither
    /// is down. One that came after more than ten times the timeout comes of a pause, and is not counted.
    pub late: Option<Duration>,
}

/// How a node answered an operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeVote {
    /// It said yes.
    Granted,
    /// It said no: somebody else holds the lock there, or the lock is gone there.
    Refused,
    /// It did not answer, or answered with an error.
    Failed(NodeError),
    /// It was not asked, or its answer was not waited for, because the outcome was certain.
    Open,
}

impl NodeReport {
    /// A report of one node, for locks of other crates.
    pub fn new(label: impl Into<Arc<str>>, vote: NodeVote) -> Self {
        Self {
            label: label.into(),
            vote,
            late: None,
        }
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.label, self.vote)
    }
}

/// With all causes of a failure.
impl fmt::Display for NodeVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Refused => f.write_str("refused"),
            Self::Open => f.write_str("not waited for"),
            Self::Failed(error) => {
                let mut shown = error.to_string();
                let mut cause = error.source();
                while let Some(error) = cause {
                    // A client may have the server's own words in it, or those of the next cause.
                    let words = Line(error).to_string();
                    if !shown.contains(&words) {
                        shown = format!("{shown}: {words}");
                    }
                    cause = error.source();
                }
                f.write_str(&shown)
            }
        }
    }
}

/// The answers of all nodes, in the configured order. They display as one line, which names every node and
/// says once what several have said.
#[derive(Clone, Debug, Default)]
pub struct NodeReports(Vec<NodeReport>);

impl NodeReports {
    /// The reports, in the configured order of the nodes.
    #[must_use]
    pub fn as_slice(&self) -> &[NodeReport] {
        &self.0
    }

    /// Returns an iterator over the reports, in the configured order of the nodes.
    pub fn iter(&self) -> slice::Iter<'_, NodeReport> {
        self.0.iter()
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no reports, as from a lock that has no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The errors of the nodes that failed.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &NodeError> {
        self.iter().filter_map(|report| match &report.vote {
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

impl FromIterator<NodeReport> for NodeReports {
    fn from_iter<I: IntoIterator<Item = NodeReport>>(reports: I) -> Self {
        Self(reports.into_iter().collect())
    }
}

impl IntoIterator for NodeReports {
    type Item = NodeReport;
    type IntoIter = vec::IntoIter<NodeReport>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a NodeReports {
    type Item = &'a NodeReport;
    type IntoIter = slice::Iter<'a, NodeReport>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for NodeReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = Vec::<(String, Vec<&str>)>::new();
        for report in self {
            let vote = report.vote.to_string();
            match said.iter_mut().find(|(other, _)| *other == vote) {
                Some((_, labels)) => labels.push(&report.label),
                None => said.push((vote, vec![&report.label])),
            }
        }
        let said = said.iter();
        let said = said.map(|(vote, labels)| format!("{}: {vote}", labels.join(", ")));
        f.write_str(&said.collect::<Vec<_>>().join("; "))?;
        match self.iter().filter_map(|report| report.late).max() {
            Some(late) => write!(
                f,
                "; answers came late, after up to {}: `node_timeout` is too short for them",
                Ms(tenths(late))
            ),
            None => Ok(()),
        }
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

    #[test]
    fn a_cause_that_nodes_or_errors_share_is_said_once_and_every_node_is_named() {
        let refused = || NodeVote::Failed(NodeError::not_sent("cannot connect: refused"));
        let wrapped = NodeError::connection("the connection broke").with_source("it broke");
        let wrapped =
            NodeError::not_sent("cannot connect: the connection broke").with_source(wrapped);
        let reports = NodeReports::from(vec![
            NodeReport::new("a:1", refused()),
            NodeReport::new("b:2", NodeVote::Granted),
            NodeReport::new("c:3", refused()),
            NodeReport::new("d:4", NodeVote::Failed(wrapped)),
            NodeReport::new("e:5", NodeVote::Granted),
        ]);
        assert_eq!(
            reports.to_string(),
            "a:1, c:3: cannot connect: refused; b:2, e:5: granted; d:4: cannot connect: the connection \
             broke: it broke"
        );
    }

    #[test]
    fn late_answers_name_the_setting_that_is_too_short_for_them() {
        let late = |label, millis: u64| NodeReport {
            late: Some(Duration::from_micros(millis * 1_000 + 67)),
            ..NodeReport::new(
                label,
                NodeVote::Failed(NodeError::no_answer(Duration::from_millis(100))),
            )
        };
        let reports = NodeReports::from(vec![late("a:1", 121), late("b:2", 163)]);
        assert_eq!(
            reports.to_string(),
            "a:1, b:2: no answer in 100 ms; answers came late, after up to 163 ms: `node_timeout` is too \
             short for them"
        );
    }

    #[test]
    fn the_words_of_a_client_are_shown_as_one_line_of_bounded_length() {
        let long = format!("said \r\n\x1b[2J{}", "x".repeat(1 << 20));
        let failed = NodeError::not_sent("cannot connect").with_source(long);
        let shown = NodeReport::new("a:1", NodeVote::Failed(failed)).to_string();
        assert!(shown.starts_with("a:1: cannot connect: said    [2Jx"));
        assert!(shown.len() < 600);
    }

    #[test]
    fn reports_are_a_collection() {
        let report = |label| NodeReport::new(label, NodeVote::Granted);
        let reports: NodeReports = ["a:1", "b:2"].map(report).into_iter().collect();
        assert_eq!((reports.len(), reports.is_empty()), (2, false));
        let mut labels = Vec::new();
        for report in &reports {
            labels.push(&*report.label);
        }
        assert_eq!(labels, ["a:1", "b:2"]);
        assert_eq!(reports.iter().count(), 2);
        assert_eq!(reports.into_iter().count(), 2);
    }
}
