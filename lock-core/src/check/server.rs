//! What a server says of itself.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::display::Line;

/// What a server told of itself. A value that it did not tell, or that makes no sense, is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// What it is, and its version: `redis 7.0.15`, `valkey 9.1.2`.
    pub version: Option<String>,
    /// The name of its run, which is another one after each start.
    pub run_id: Option<String>,
    /// Whether it takes writes or follows another server.
    pub role: Option<Role>,
    /// The number of its replicas.
    pub replicas: Option<u64>,
    /// Whether it refuses writes without enough replicas that are up to date (`min-replicas-to-write`).
    pub needs_replicas: bool,
    /// Whether it logs each write to a file (`appendonly`). A server that does not forgets locks as it restarts,
    /// whether it takes snapshots or not.
    pub has_append_only_file: Option<bool>,
    /// What it deletes when its memory is full (`maxmemory-policy`).
    pub eviction_policy: Option<String>,
    /// How many bytes of memory it may use (`maxmemory`); `None` also without a limit.
    pub max_memory: Option<u64>,
    /// By how much its clock is ahead of the clock of this machine.
    pub clock_offset: ClockOffset,
    /// Why it tells nothing but the time: the user may not call `INFO`.
    pub info_refused: Option<String>,
}

/// The role of a server in replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It takes writes.
    Primary,
    /// It follows a primary, and refuses to set a lock.
    Replica,
}

/// By how much the clock of a server is ahead of the wall clock of this machine, or behind it.
///
/// It is exact to half of the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// In microseconds; below zero if the server's clock is behind.
    micros: i64,
    exact_to: Duration,
}

/// What a server told, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// Since the Unix epoch.
    pub(crate) time: Duration,
    /// Names and values, or why there are none.
    pub(crate) info: Result<Vec<(String, String)>, String>,
}

impl ServerInfo {
    /// `clock_offset` is what the server's time has shown.
    pub(crate) fn new(described: Described, clock_offset: ClockOffset) -> Self {
        let (info, info_refused) = match described.info {
            Ok(info) => (info, None),
            Err(why) => (Vec::new(), Some(Line(why).to_string())),
        };
        let get = |wanted: &str| {
            let found = info.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| Line(value).to_string())
        };
        let number = |name| get(name)?.parse::<u64>().ok();
        let version = |product, name| get(name).map(|version| format!("{product} {version}"));
        Self {
            version: version("valkey", "valkey_version")
                .or_else(|| version("redis", "redis_version")),
            run_id: get("run_id"),
            role: match get("role").as_deref() {
                Some("master") => Some(Role::Primary),
                Some("slave") => Some(Role::Replica),
                _ => None,
            },
            replicas: number("connected_slaves"),
            needs_replicas: get("min_slaves_good_slaves").is_some(),
            has_append_only_file: number("aof_enabled").map(|enabled| enabled != 0),
            eviction_policy: get("maxmemory_policy"),
            max_memory: number("maxmemory").filter(|bytes| *bytes != 0),
            clock_offset,
            info_refused,
        }
    }
}

impl ClockOffset {
    /// Of a server that showed `time`, since the Unix epoch, at some moment of the round trip that began at `asked` by
    /// the clock of this machine.
    pub(crate) fn new(time: Duration, asked: SystemTime, round_trip: Duration) -> Self {
        let exact_to = round_trip / 2;
        let asked = asked.duration_since(UNIX_EPOCH).unwrap_or_default();
        let here = asked.saturating_add(exact_to);
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Self {
            micros: micros(time).saturating_sub(micros(here)),
            exact_to,
        }
    }

    /// In microseconds; below zero if the server's clock is behind.
    #[must_use]
    pub fn micros(self) -> i64 {
        self.micros
    }

    /// Returns whether the server's clock is ahead.
    #[must_use]
    pub fn is_ahead(self) -> bool {
        self.micros > 0
    }

    /// How far the two clocks are apart.
    #[must_use]
    pub fn distance(self) -> Duration {
        Duration::from_micros(self.micros.unsigned_abs())
    }

    /// How far apart they are for certain.
    pub(crate) fn at_least(self) -> Duration {
        self.distance().saturating_sub(self.exact_to)
    }
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.micros < 0 { '-' } else { '+' };
        let millis = self.distance().as_secs_f64() * 1000.0;
        match self.distance() < Duration::from_secs(1) {
            true => write!(f, "{sign}{millis:.1} ms"),
            false => write!(f, "{sign}{:.1} s", millis / 1000.0),
        }
    }
}
