//! What a caller asks a lock for.

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
    ttl: Option<Duration>,
    max_wait: Option<Option<Duration>>,
    retry: Option<RetryPolicy>,
    hold_at_least: Option<Duration>,
    give_up_when_held: bool,
}

impl LockRequest {
    /// A request for a resource: any bytes, at least one.
    pub fn new(resource: impl AsRef<[u8]>) -> Self {
        Self {
            resource: Arc::from(resource.as_ref()),
            ttl: None,
            max_wait: None,
            retry: None,
            hold_at_least: None,
            give_up_when_held: false,
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

    /// The resource's bytes.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        &self.resource
    }

    /// Checks what every lock has to refuse before it sends anything, and gives the ttl: that of the
    /// request, or `default_ttl`. For whoever makes a lock of his own.
    ///
    /// # Errors
    ///
    /// An empty resource or one of more than 64 KiB, a ttl below 1 ms or above 365 days,
    /// `hold_at_least` above the ttl.
    pub fn validate(&self, default_ttl: Duration) -> Result<Ttl, InvalidInput> {
        check_len(0, &self.resource)?;
        let given = self.ttl.unwrap_or(default_ttl);
        let ttl = Ttl::new(given)?;
        let hold = self.get_hold_at_least();
        if hold > ttl.as_duration() {
            return Err(InvalidInput::HoldAboveTtl { hold, ttl: given });
        }
        Ok(ttl)
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

    /// Whether a wait ends as soon as somebody else surely holds the lock.
    #[must_use]
    pub fn gives_up_when_held(&self) -> bool {
        self.give_up_when_held
    }
}

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
