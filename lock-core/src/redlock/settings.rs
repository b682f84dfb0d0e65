//! What a lock was built with, and what a request makes of it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::guard::{GUARD_SUFFIX, RestartGuard};
use super::protocol::{Moment, Quorum, Renewal, Timing, WaitPolicy};
use crate::display::Name;
use crate::error::{BuildError, InvalidInput};
use crate::events::Events;
use crate::fencing::FencingToken;
use crate::node::{Fence, Guard, Keys, Token};
use crate::note::Note;
use crate::request::{LockRequest, MAX_HOLD, MaxWait, check_len};
use crate::retry::RetryPolicy;
use crate::runtime::{self, AmbientId, Home, Runtime};
use crate::slot::{COUNTER_SUFFIX, counter_key};
use crate::ttl::Ttl;

/// Both clocks are read in less time, unless the thread was interrupted.
const READ_WITHIN: Duration = Duration::from_millis(50);

/// For how long a node keeps a fencing counter, unless told otherwise.
const FENCING_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What no key of a lock ends with.
pub(crate) const RESERVED: [&str; 2] = [COUNTER_SUFFIX, GUARD_SUFFIX];

/// The settings of one lock.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) prefix: Vec<u8>,
    /// Who holds these locks, in words for people.
    pub(crate) owner: Option<Note>,
    pub(crate) quorum: Quorum,
    pub(crate) ttl: Duration,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) retry: RetryPolicy,
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) drift_factor: f64,
    pub(crate) auto_extend: bool,
    pub(crate) extend_interval: Option<Duration>,
    pub(crate) max_hold: Duration,
    pub(crate) one_key_per_command: bool,
    pub(crate) notice_pauses: bool,
    pub(crate) fencing: bool,
    /// `None` is the default.
    pub(crate) fencing_retention: Option<Duration>,
    pub(crate) restart_guard: Option<RestartGuard>,
    /// The same as it goes to nodes, once all is checked.
    pub(crate) guard: Option<Guard>,
    pub(crate) runtime: Option<Arc<dyn Runtime>>,
    pub(crate) events: Events,
}

/// One request, checked and completed with the lock's defaults.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The resource, or the first one of several.
    pub(crate) resource: Arc<[u8]>,
    pub(crate) keys: Keys,
    pub(crate) timing: Timing,
    pub(crate) hold_at_least: Duration,
    /// The counters of a lock with a fencing token.
    pub(crate) fence: Option<Fence>,
    /// Where the lock lives.
    pub(crate) home: Home,
    /// How it is extended automatically, if it is.
    pub(crate) renewal: Option<Renewal>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: Vec::new(),
            owner: None,
            quorum: Quorum::majority(1),
            ttl: Duration::from_secs(30),
            max_wait: Some(Duration::from_secs(10)),
            retry: RetryPolicy::default(),
            node_timeout: None,
            connect_timeout: Duration::from_secs(1),
            drift_factor: 0.01,
            auto_extend: false,
            extend_interval: None,
            max_hold: MAX_HOLD,
            one_key_per_command: false,
            notice_pauses: true,
            fencing: false,
            fencing_retention: None,
            restart_guard: None,
            guard: None,
            runtime: None,
            events: Events::default(),
        }
    }
}

impl Settings {
    /// Checks what every request takes from the settings.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if !(0.0..1.0).contains(&self.drift_factor) {
            let factor = self.drift_factor;
            return Err(BuildError::DriftFactor { factor });
        }
        for (setting, value) in [
            ("node_timeout", self.node_timeout),
            ("connect_timeout", Some(self.connect_timeout)),
        ] {
            if value == Some(Duration::ZERO) {
                return Err(BuildError::ZeroTimeout { setting });
            }
        }
        let timing = self.timing(self.ttl)?;
        self.check_guarded(self.ttl)?;
        if self.auto_extend {
            Renewal::new(timing.validity, self.extend_interval, self.max_hold)?;
        }
        if let Some(retention) = self.fencing_retention {
            let (min, max) = (timing.ttl.as_duration(), Ttl::MAX.as_duration());
            if !(min..=max).contains(&retention) {
                return Err(BuildError::FencingRetention {
                    retention,
                    min,
                    max,
                });
            }
        }
        // With a prefix that leaves no room for the shortest resource, no request could work.
        self.key(&Arc::from(*b"r"))?;
        Ok(())
    }

    pub(crate) fn timing(&self, ttl: Duration) -> Result<Timing, InvalidInput> {
        Timing::new(ttl, self.drift_factor, self.node_timeout)
    }

    /// How long a node may take for a command that belongs to no lock.
    pub(crate) fn node_timeout(&self) -> Duration {
        self.node_timeout.unwrap_or(Timing::MAX_NODE_TIMEOUT)
    }

    /// The same for a release that belongs to no call any more.
    pub(crate) fn release_timeout(&self) -> Duration {
        Timing::release_timeout(self.node_timeout())
    }

    /// Checks all of a request, before any IO.
    pub(crate) fn plan(&self, request: &LockRequest) -> Result<Plan, InvalidInput> {
        let resource = request.shared_resource();
        let keys = match request.several() {
            None => Keys::One(self.key(&resource)?),
            Some(resources) => {
                let keys = resources.iter().map(|resource| self.key(resource));
                Keys::new(keys.collect::<Result<_, _>>()?)
            }
        };
        let ttl = request.validate(self.ttl)?;
        let timing = self.timing(ttl.as_duration())?;
        let hold_at_least = request.options().hold_at_least;
        // What is kept for its whole ttl, as the claim of a tick, is not covered.
        if hold_at_least < ttl.as_duration() {
            self.check_guarded(ttl.as_duration())?;
        }
        let fence = self.fence(request, &keys, timing)?;
        Ok(Plan {
            resource,
            keys,
            timing,
            fence,
            hold_at_least,
            home: self.home(),
            renewal: self.renewal(request, timing)?,
        })
    }

    /// What nodes are sent as the restart guard, if there is one.
    pub(crate) fn sent_guard(&self) -> Result<Option<Guard>, BuildError> {
        let Some(guard) = self.restart_guard else {
            return Ok(None);
        };
        if self.one_key_per_command {
            return Err(BuildError::GuardApart);
        }
        Ok(Some(Guard {
            key: self.guard_key(),
            quarantine: guard.quarantine(self.drift_factor)?,
        }))
    }

    pub(crate) fn guard_key(&self) -> Arc<[u8]> {
        Arc::from([&self.prefix[..], GUARD_SUFFIX.as_bytes()].concat())
    }

    /// Checks that a node in quarantine outlasts a lock of this ttl.
    pub(crate) fn check_guarded(&self, ttl: Duration) -> Result<(), InvalidInput> {
        match self.restart_guard.map(|guard| guard.max_ttl()) {
            Some(max) if ttl > max => Err(InvalidInput::TtlAboveGuard { ttl, max }),
            _ => Ok(()),
        }
    }

    /// Returns whether a lock of this request has a fencing token.
    pub(crate) fn fences(&self, request: &LockRequest) -> bool {
        request.options().fencing.unwrap_or(self.fencing)
    }

    /// The counters of the lock, if the request or the lock asks for a fencing token.
    fn fence(
        &self,
        request: &LockRequest,
        keys: &Keys,
        timing: Timing,
    ) -> Result<Option<Fence>, InvalidInput> {
        if !self.fences(request) {
            return Ok(None);
        }
        if self.one_key_per_command && keys.is_several() {
            let keys = 2 * keys.as_slice().len();
            return Err(InvalidInput::FencingApart { keys });
        }
        let counters = keys.as_slice().iter().map(|key| counter_key(key));
        let retention = self.fencing_retention.unwrap_or(FENCING_RETENTION);
        Ok(Some(Fence {
            counters: counters.collect(),
            above: request
                .options()
                .fencing_floor
                .unwrap_or(FencingToken::new(0)),
            retention: Ttl::new(retention)?.max(timing.ttl),
        }))
    }

    /// How a lock is extended automatically, if the request or the lock asks for it.
    fn renewal(
        &self,
        request: &LockRequest,
        timing: Timing,
    ) -> Result<Option<Renewal>, InvalidInput> {
        let options = request.options();
        if !options.auto_extend.unwrap_or(self.auto_extend) {
            return Ok(None);
        }
        let interval = options.extend_interval.or(self.extend_interval);
        let max_hold = options.max_hold.unwrap_or(self.max_hold);
        Renewal::new(timing.validity, interval, max_hold).map(Some)
    }

    /// How long a waiting acquire that starts at `now` is ready to wait.
    pub(crate) fn wait_policy(&self, request: &LockRequest, now: Duration) -> WaitPolicy {
        let options = request.options();
        let max_wait = options.max_wait.map_or(self.max_wait, MaxWait::limit);
        WaitPolicy::Wait {
            until: max_wait.map(|max_wait| now.saturating_add(max_wait)),
            retry: options.retry.unwrap_or(self.retry),
            give_up_when_held: options.fail_if_held,
            give_up_when_unavailable: options.fail_if_unavailable,
        }
    }

    /// Where what a caller acquires lives.
    pub(crate) fn home(&self) -> Home {
        self.runtime.is_none().then(AmbientId::current)
    }

    /// The runtime that was set, or the one that the caller runs on.
    pub(crate) fn runtime(&self) -> Arc<dyn Runtime> {
        match &self.runtime {
            Some(runtime) => Arc::clone(runtime),
            None => runtime::ambient(),
        }
    }

    /// The present. The wall clock is read first: time that passes in between is no pause.
    pub(crate) fn moment(&self, runtime: &dyn Runtime) -> Moment {
        let wall = || runtime.system_time().duration_since(UNIX_EPOCH);
        let wall = self.notice_pauses.then(|| wall().unwrap_or_default());
        let now = runtime.now();
        Moment { now, wall }
    }

    /// The present as the beginning of a validity, when the clock showed `before` just now. A thread that
    /// loses the processor between the clocks reads them again, or that would look like a pause.
    pub(crate) fn beginning(&self, runtime: &dyn Runtime, before: Duration) -> Moment {
        let mut before = before;
        for _ in 0..3 {
            let moment = self.moment(runtime);
            if moment.now.saturating_sub(before) < READ_WITHIN {
                return moment;
            }
            before = moment.now;
        }
        self.moment(runtime)
    }

    /// A new token, with the note of this lock.
    pub(crate) fn token(&self, runtime: &dyn Runtime) -> Token {
        let token = Token::generate(runtime);
        match &self.owner {
            Some(owner) => token.noted(owner),
            None => token,
        }
    }

    /// The resource of a key.
    pub(crate) fn resource<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.get(self.prefix.len()..).unwrap_or_default()
    }

    /// The key of a resource: the prefix and then the resource, byte for byte.
    pub(crate) fn key(&self, resource: &Arc<[u8]>) -> Result<Arc<[u8]>, InvalidInput> {
        check_len(self.prefix.len(), resource)?;
        let key = match self.prefix.is_empty() {
            true => Arc::clone(resource),
            false => Arc::from([&self.prefix[..], resource].concat()),
        };
        let is_its_end = |suffix: &&str| key.ends_with(suffix.as_bytes());
        match RESERVED.into_iter().find(is_its_end) {
            Some(suffix) => Err(InvalidInput::ReservedSuffix {
                resource: Name(resource).to_string(),
                suffix,
            }),
            None => Ok(key),
        }
    }
}
