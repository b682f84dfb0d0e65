//! A report as a table.

use std::fmt;

use super::{CheckReport, NodeCheck, Role, Severity};

/// The columns; an empty cell is shown as `-`.
const HEAD: [&str; 8] = [
    "node",
    "locks",
    "answer",
    "server",
    "role",
    "clock",
    "eviction",
    "appendonly",
];

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = std::iter::once(HEAD.map(str::to_owned))
            .chain(self.nodes.iter().map(row))
            .collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; HEAD.len()] = std::array::from_fn(width);
        for row in &rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                line.push_str(&format!("{cell:width$}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        let (working, all) = (self.working(), self.nodes.len());
        let needed = self.quorum;
        match self.is_available() {
            true => write!(
                f,
                "locks can be acquired: {working} of {all} nodes grant them, {needed} are needed"
            )?,
            false => write!(
                f,
                "NO LOCK CAN BE ACQUIRED: {working} of {all} nodes grant one, {needed} are needed"
            )?,
        }
        for (node, finding) in self.findings() {
            let severity = match finding.severity() {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            let node = node.unwrap_or("this machine");
            write!(f, "\n{severity}: {node}: {finding}. {}", finding.advice())?;
        }
        Ok(())
    }
}

fn row(node: &NodeCheck) -> [String; HEAD.len()] {
    let server = node.server.as_ref().ok();
    let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let locks = match (node.lock.is_ok(), node.down_since) {
        (true, None) => "yes",
        // It has granted one, and was down just before.
        (true, Some(_)) => "again",
        (false, _) => "no",
    };
    let answer = node
        .round_trip
        .map(|time| format!("{:.1} ms", time.as_secs_f64() * 1000.0));
    let role = server.and_then(|server| server.role);
    let role = role.map(|role| match role {
        Role::Primary => "primary",
        Role::Replica => "replica",
    });
    let has_log = server.and_then(|server| server.has_append_only_file);
    [
        node.label.to_string(),
        locks.to_owned(),
        cell(answer),
        cell(server.and_then(|server| server.version.clone())),
        cell(role.map(str::to_owned)),
        cell(server.map(|server| server.clock_offset.to_string())),
        cell(server.and_then(|server| server.eviction_policy.clone())),
        cell(has_log.map(|has_log| if has_log { "yes" } else { "no" }.to_owned())),
    ]
}
