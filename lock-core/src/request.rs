//! What a caller asks a lock for.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::error::InvalidInput;
use crate::retry::RetryPolicy;
use crate::ttl::Ttl;

/// A resource to lock, and how.
///
/// What is not set falls back to the lock's own defaults. Values are checked when the request is
/// used, before anything is sent.
///
/// ```
/// use std::time::Duration;
/// use lock_core::LockRequest;
///
/// let request = LockRequest::new("invoice-7")
///     .ttl(Duration::from_secs(10))
///     .max_wait(Duration::from_secs(2));
/// assert_eq!(request.resource(), b"invoice-7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    resource: Arc<[u8]>,
    /// All resources, unless there is one.
    several: Option<Arc<[Arc<[u8]>]>>,
    ttl: Option<Duration>,
    max_wait: Option<Option<Duration>>,
    retry: Option<RetryPolicy>,
    hold_at_least: Option<Duration>,
    give_up_when_held: bool,
    auto_extend: Option<bool>,
    extend_interval: Option<Duration>,
    max_hold: Option<Duration>,
}

impl LockRequest {
    /// A request for a resource: any bytes, at least one.
    pub fn new(resource: impl AsRef<[u8]>) -> Self {
        Self::with(Arc::from(resource.as_ref()), None)
    }

    /// A request for several resources, all or nothing, in any order: at least one, at most 100, none
    /// twice.
    ///
    /// They are locked in one round. On nodes of a cluster whose keys are apart they are locked one
    /// after the other, in the order of their bytes, so that nobody waits for each other.
    ///
    /// ```
    /// # use lock_core::LockRequest;
    /// let transfer = LockRequest::all(["account-1", "account-2"]);
    /// assert_eq!(transfer.resources().count(), 2);
    /// ```
    pub fn all<R: AsRef<[u8]>>(resources: impl IntoIterator<Item = R>) -> Self {
        let resources = resources.into_iter();
        let several = resources
            .map(|resource| Arc::from(resource.as_ref()))
            .collect::<Arc<[_]>>();
        match &*several {
            [only] => Self::with(Arc::clone(only), None),
            [first, ..] => Self::with(Arc::clone(first), Some(several)),
            [] => Self::with(Arc::from([]), Some(several)),
        }
    }

    fn with(resource: Arc<[u8]>, several: Option<Arc<[Arc<[u8]>]>>) -> Self {
        Self {
            resource,
            several,
            ttl: None,
            max_wait: None,
            retry: None,
            hold_at_least: None,
            give_up_when_held: false,
            auto_extend: None,
            extend_interval: None,
            max_hold: None,
        }
    }

    /// How long the lock lives unless it is extended or released, at least 1 ms, at most 365
    /// days; fractions of a millisecond are cut. It is also how long others wait after the holder
    /// has crashed. Defaults to the lock's default: 30 s.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long a waiting acquire may take before it reports why it failed. Zero tries once and
    /// does not wait; `None` knows no limit. An attempt that has begun when the time is over ends
    /// at once, except for the first, which always gets its node timeout. Defaults to the
    /// lock's default: 10 s.
    #[must_use]
    pub fn max_wait(mut self, max_wait: impl Into<Option<Duration>>) -> Self {
        self.max_wait = Some(max_wait.into());
        self
    }

    /// How long a waiting acquire pauses between attempts. Defaults to the lock's default: from
    /// 5 ms doubling to 200 ms, with full jitter.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Keeps the lock taken for at least this long after it was acquired, even if it is released
    /// or dropped earlier; at most the ttl. A key never outlives its ttl, which runs from when the
    /// node was asked, so a hold close to the ttl ends with the key, that much earlier. Defaults
    /// to zero.
    #[must_use]
    pub fn hold_at_least(mut self, hold: Duration) -> Self {
        self.hold_at_least = Some(hold);
        self
    }

    /// Ends a wait with [`Contended`](crate::AcquireError::Contended) as soon as it is certain that
    /// one other holder has the lock. Outages and rivals that are still competing are retried
    /// until `max_wait`, as ever. Defaults to off: a wait outlasts holders.
    #[must_use]
    pub fn give_up_when_held(mut self, give_up: bool) -> Self {
        self.give_up_when_held = give_up;
        self
    }

    /// Extends the lock in the background, again and again, for as long as its guard lives. Then
    /// the ttl need not be longer than the work: it is only how long others wait after a crash.
    ///
    /// A node that fails is asked again until the validity ends. If that is not enough, the lock is
    /// [lost](crate::LockGuard::lost). Defaults to the lock's default: off.
    #[must_use]
    pub fn auto_extend(mut self, auto_extend: bool) -> Self {
        self.auto_extend = Some(auto_extend);
        self
    }

    /// How long after one automatic extension the next one begins: at least 1 ms, and at most two
    /// thirds of the validity, so that there is time for another try. It may come up to an eighth
    /// earlier, together with those of other locks. Defaults to the lock's default: a third of the
    /// validity.
    #[must_use]
    pub fn extend_interval(mut self, interval: Duration) -> Self {
        self.extend_interval = Some(interval);
        self
    }

    /// How long after it was acquired a lock is extended automatically, so that a guard that was
    /// forgotten does not hold for ever. What was extended by then runs to its end. Defaults to the
    /// lock's default: one hour.
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// The resource's bytes; those of the first one, if there are several.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        &self.resource
    }

    /// All resources, in the order given.
    pub fn resources(&self) -> impl Iterator<Item = &[u8]> {
        let several = self.several.as_deref();
        let all = several.unwrap_or(std::slice::from_ref(&self.resource));
        all.iter().map(|resource| &**resource)
    }

    /// All resources, if there are several or none.
    pub(crate) fn several(&self) -> Option<&[Arc<[u8]>]> {
        self.several.as_deref()
    }

    /// A request for each resource, in the order of their bytes: whoever locks one after the other in
    /// that order never waits for somebody who waits for him. For locks that take one at a time; see
    /// [`LockGuard::all`](crate::LockGuard::all).
    pub fn one_by_one(&self) -> impl Iterator<Item = Self> {
        let several = self.several.as_deref();
        let all = several.unwrap_or(std::slice::from_ref(&self.resource));
        let mut resources = all.to_vec();
        if !mutant!(SeveralInAnyOrder) {
            resources.sort_unstable();
        }
        resources.into_iter().map(|resource| Self {
            resource,
            several: None,
            ..self.clone()
        })
    }

    /// Checks what every lock has to refuse before it sends anything, and gives the ttl: that of the
    /// request, or `default_ttl`. For whoever makes a lock of his own.
    ///
    /// # Errors
    ///
    /// No resource or more than 100 of them, one of them twice, an empty one or one of more than 64
    /// KiB, a ttl below 1 ms or above 365 days, `hold_at_least` above the ttl.
    pub fn validate(&self, default_ttl: Duration) -> Result<Ttl, InvalidInput> {
        self.check_resources()?;
        let given = self.ttl.unwrap_or(default_ttl);
        let ttl = Ttl::new(given)?;
        let hold = self.get_hold_at_least();
        if hold > ttl.as_duration() {
            return Err(InvalidInput::HoldAboveTtl { hold, ttl: given });
        }
        Ok(ttl)
    }

    fn check_resources(&self) -> Result<(), InvalidInput> {
        let Some(several) = self.several() else {
            return check_len(0, &self.resource);
        };
        let (count, max) = (several.len(), MAX_RESOURCES);
        match count {
            0 => return Err(InvalidInput::NoResources),
            count if count > max => return Err(InvalidInput::TooManyResources { count, max }),
            _ => {}
        }
        let mut seen = HashSet::new();
        for resource in several {
            check_len(0, resource)?;
            if !seen.insert(resource) {
                let resource = String::from_utf8_lossy(resource).into_owned();
                return Err(InvalidInput::DuplicateResource { resource });
            }
        }
        Ok(())
    }

    pub(crate) fn shared_resource(&self) -> Arc<[u8]> {
        Arc::clone(&self.resource)
    }

    /// The ttl, if one was set.
    #[must_use]
    pub fn get_ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// The longest wait, if one was set: `Some(None)` knows no limit.
    #[must_use]
    pub fn get_max_wait(&self) -> Option<Option<Duration>> {
        self.max_wait
    }

    /// The retry policy, if one was set.
    #[must_use]
    pub fn get_retry(&self) -> Option<RetryPolicy> {
        self.retry
    }

    /// How long the lock stays taken at least; zero unless set.
    #[must_use]
    pub fn get_hold_at_least(&self) -> Duration {
        self.hold_at_least.unwrap_or_default()
    }

    /// Whether the lock is extended automatically, if that was set.
    #[must_use]
    pub fn get_auto_extend(&self) -> Option<bool> {
        self.auto_extend
    }

    /// The interval of automatic extensions, if one was set.
    #[must_use]
    pub fn get_extend_interval(&self) -> Option<Duration> {
        self.extend_interval
    }

    /// How long the lock is extended automatically, if that was set.
    #[must_use]
    pub fn get_max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    /// Whether a wait ends as soon as somebody else surely holds the lock.
    #[must_use]
    pub fn gives_up_when_held(&self) -> bool {
        self.give_up_when_held
    }
}

/// The most resources of one request: a script is to keep no server busy.
const MAX_RESOURCES: usize = 100;

/// The longest key: resource and prefix together.
const MAX_KEY_LEN: usize = 64 * 1024;

/// Refuses a resource without a name, or one that is too long with its prefix.
pub(crate) fn check_len(prefix_len: usize, resource: &[u8]) -> Result<(), InvalidInput> {
    if resource.is_empty() {
        return Err(InvalidInput::ResourceEmpty);
    }
    let (len, max) = (prefix_len.saturating_add(resource.len()), MAX_KEY_LEN);
    if len > max {
        return Err(InvalidInput::ResourceTooLong { len, max });
    }
    Ok(())
}

macro_rules! request_from {
    ($($name:ty),*) => {$(
        impl From<$name> for LockRequest {
            fn from(resource: $name) -> Self {
                Self::new(resource)
            }
        }
    )*};
}

request_from!(&str, String, &String, &[u8], Vec<u8>);

impl From<&LockRequest> for LockRequest {
    fn from(request: &LockRequest) -> Self {
        request.clone()
    }
}
