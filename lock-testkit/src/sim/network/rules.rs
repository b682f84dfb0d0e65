//! How the network behaves.

use std::time::Duration;

/// How long messages take, and how likely they are lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkRules {
    /// The usual way in one direction, and the longest.
    pub(crate) usual: Duration,
    pub(crate) longest: Duration,
    /// How likely it is that a connection breaks before a request runs, or behind it.
    pub(crate) loses_request: f64,
    pub(crate) loses_reply: f64,
    /// How likely it is that a request runs a second time.
    pub(crate) duplicates: f64,
    /// How likely it is that requests of a broken connection run later nevertheless.
    pub(crate) strays: f64,
}

impl Default for NetworkRules {
    fn default() -> Self {
        Self {
            usual: Duration::from_micros(200),
            longest: Duration::from_millis(2),
            loses_request: 0.0,
            loses_reply: 0.0,
            duplicates: 0.0,
            strays: 0.0,
        }
    }
}
